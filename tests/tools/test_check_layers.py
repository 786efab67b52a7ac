"""Runs tools/check-layers on small trees, each with one fault, and on a clean one."""
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check-layers"


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.write("src/base/err.h", "int err_set(void);\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    def check(self):
        done = subprocess.run(
            [sys.executable, str(TOOL), "--root", str(self.root)], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def assert_clean(self):
        code, output = self.check()
        self.assertEqual(code, 0, output)
        self.assertIn("0 errors", output)
        return output

    def assert_error(self, *parts):
        code, output = self.check()
        self.assertEqual(code, 1, output)
        for part in parts:
            self.assertIn(part, output)
        self.assertIn("1 errors", output)

    def test_includes_that_point_down_are_clean(self):
        self.write("src/wire/spec.h", '#include "base/err.h"\n')
        self.write("src/engine/solve/solve.c", '#include "wire/spec.h"\n#include "engine/own.h"\n#include <math.h>\n')
        self.write("src/worker/train.c", '#include "engine/own.h"\n#include "gpu/probe.h"\n')
        self.assert_clean()

    def test_an_include_that_points_up_names_file_and_line(self):
        self.write("src/base/log.c", '#include <stdio.h>\n#include "wire/spec.h"\n')
        self.assert_error("src/base/log.c:2:", 'base must not include "wire/spec.h"')

    def test_neighbours_of_one_level_do_not_see_each_other(self):
        self.write("src/store/jobs.c", '#include "engine/solve/solve.h"\n')
        self.assert_error("src/store/jobs.c:1:", "store must not include")

    def test_the_server_does_not_see_the_engine(self):
        self.write("src/server/main.c", '#include "engine/model/model.h"\n')
        self.assert_error("server must not include")

    def test_rooms_of_the_server_do_not_see_what_stands_above_them(self):
        self.write("src/server/pool/pool.c", '#include "server/pool/pool.h"\n#include "server/app.h"\n')
        self.write("src/server/jobs/run.c", '#include "server/pool/pool.h"\n')
        self.assert_clean()
        self.write("src/server/pool/tail.c", '#include "server/jobs/run.h"\n')
        self.assert_error("src/server/pool/tail.c:1:", 'server/pool must not include "server/jobs/run.h"')

    def test_nouns_of_the_engine_do_not_see_its_rooms(self):
        self.write("src/engine/fit/fit.c", '#include "engine/search/search.h"\n#include "engine/state.h"\n')
        self.write("src/engine/backend.c", '#include "engine/group/backend_group.h"\n')
        self.assert_clean()
        self.write("src/engine/state.c", '#include "engine/fit/fit.h"\n')
        self.assert_error("src/engine/state.c:1:", 'engine must not include "engine/fit/fit.h"')

    def test_families_of_methods_do_not_see_each_other(self):
        self.write("src/engine/methods/eigenpro/a.c", '#include "engine/methods/stochastic/row_batches.h"\n')
        self.write("src/engine/methods/full/a.c", '#include "engine/methods/cg_columns.h"\n')
        self.assert_clean()
        self.write("src/engine/methods/full/b.c", '#include "engine/methods/blocks/leverage.h"\n')
        self.assert_error("src/engine/methods/full/b.c:1:", "engine/methods/full must not include")

    def test_the_worker_does_not_see_the_store(self):
        self.write("src/worker/main.c", '#include "store/jobs.h"\n')
        self.assert_error("worker must not include")

    def test_the_worker_does_not_see_the_readers_of_uploads(self):
        self.write("src/worker/main.c", '#include "ingest/csv.h"\n')
        self.assert_error("worker must not include")

    def test_the_gpu_sees_three_headers_of_the_engine(self):
        for header in ("backend", "kernel", "mat"):
            self.write(f"src/gpu/{header}.cu", f'#include "engine/{header}.h"\n')
        self.assert_clean()
        self.write("src/gpu/backend.cu", '#include "engine/solver.h"\n')
        self.assert_error("gpu must not include")

    def test_a_commented_include_does_not_count(self):
        self.write("src/base/log.c", '/*\n#include "wire/spec.h"\n*/\n// #include "wire/spec.h"\n')
        self.assert_clean()

    def test_an_include_names_its_folder(self):
        self.write("src/base/log.c", '#include "err.h"\n')
        self.assert_error('"err.h" must name its folder')

    def test_a_folder_without_a_level_is_refused(self):
        self.write("src/misc/thing.c", "int thing;\n")
        self.assert_error("src/misc/thing.c:1:", "no level")

    def test_a_foreign_header_has_one_home(self):
        self.write("src/store/db.c", "#include <sqlite3.h>\n")
        self.assert_clean()
        self.write("src/store/jobs.c", "#include <sqlite3.h>\n")
        self.assert_error("src/store/jobs.c:1:", "one home in src/store/db.c")

    def test_two_headers_of_nettle_need_the_same_home(self):
        self.write("src/base/sha256.c", "#include <nettle/sha2.h>\n")
        self.write("src/base/sha1.c", "#include <nettle/sha1.h>\n")
        self.assert_error("<nettle/>", "one home")

    def test_the_loop_library_lives_in_the_server(self):
        self.write("src/server/loop.c", "#include <uv.h>\n")
        self.write("src/server/pool.c", "#include <uv.h>\n")
        self.assert_clean()
        self.write("src/worker/main.c", "#include <uv.h>\n")
        self.assert_error("src/worker/main.c:1:", "src/server only")

    def test_banned_calls_are_found(self):
        self.write("src/wire/spec.c", "int f(void)\n{\n    return atoi(text);\n}\n")
        self.assert_error("src/wire/spec.c:3:", "atoi() is banned")

    def test_memory_calls_live_in_mem_c(self):
        body = "void *g(unsigned long n)\n{\n    return malloc(n);\n}\n"
        self.write("src/base/mem.c", body)
        self.assert_clean()
        self.write("src/base/buf.c", body)
        self.assert_error("src/base/buf.c:3:", "malloc() is banned")

    def test_comments_strings_members_and_longer_names_are_no_calls(self):
        self.write(
            "src/wire/spec.c",
            """\
            /* free(x) */
            void f(struct s *s)
            {
                puts("malloc(1) // it's \\" strcpy(");  // free(x)
                s->free(s);
                s->ops.free (s);
                mem_free(s);
                char c = '"';
                puts("atoi(");
            }
            """,
        )
        self.assert_clean()

    def test_tests_may_allocate_but_not_overflow(self):
        self.write("tests/unit/test_x.c", "int f(void)\n{\n    free(malloc(1));\n    return 0;\n}\n")
        self.assert_clean()
        self.write("tests/unit/test_x.c", "int f(void)\n{\n    strcpy(a, b);\n    return 0;\n}\n")
        self.assert_error("tests/unit/test_x.c:3:", "strcpy() is banned")

    def write_function(self, lines):
        body = "    x = x + 1;\n" * (lines - 3)
        self.write("src/wire/long.c", "static const int t[] = {1, 2};\nint long_one(int x)\n{\n" + body + "}\n")

    def test_a_function_of_sixty_lines_passes(self):
        self.write_function(60)
        self.assertIn("0 warnings", self.assert_clean())

    def test_a_long_function_is_warned_of(self):
        self.write_function(61)
        output = self.assert_clean()
        self.assertIn("src/wire/long.c:2: warning: long_one() has 61 lines", output)

    def test_a_function_at_the_limit_passes_and_one_past_it_fails(self):
        self.write_function(120)
        self.assert_clean()
        self.write_function(121)
        self.assert_error("src/wire/long.c:2:", "long_one() has 121 lines, the limit is 120")

    def test_functions_inside_extern_c_are_measured(self):
        body = "    x = x + 1;\n" * 130
        self.write("src/gpu/k.cu", 'extern "C" {\nint deep(int x)\n{\n' + body + "}\n}\n")
        self.assert_error("src/gpu/k.cu:2:", "deep() has 133 lines")

    def test_a_long_file_is_warned_of_and_a_longer_one_fails(self):
        self.write("src/wire/table.c", "int a;\n" * 601)
        self.assertIn("src/wire/table.c:601: warning: the file has 601 lines", self.assert_clean())
        self.write("src/wire/table.c", "int a;\n" * 1001)
        self.assert_error("src/wire/table.c:1001:", "the limit is 1000")

    def test_an_empty_tree_is_an_error(self):
        (self.root / "src/base/err.h").unlink()
        code, output = self.check()
        self.assertNotEqual(code, 0)
        self.assertIn("no source file", output)


if __name__ == "__main__":
    unittest.main()
