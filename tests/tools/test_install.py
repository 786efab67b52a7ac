"""Runs install_missing of scripts/lib.sh against a made-up dpkg and apt, which tell what is asked of them."""
import os
import pathlib
import subprocess
import tempfile
import unittest

LIBRARY = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "lib.sh"

# apt-cache as it is: a name that no package has is an error, unless other packages mention it.
PROGRAMS = {
    "dpkg-query": 'for name; do :; done\ncase " $MISSING " in *" $name "*) exit 1 ;; esac\necho "ii "\n',
    "apt-cache": 'case " $MENTIONED " in *" $2 "*) exit 0 ;; esac\n'
                 'case " $UNKNOWN " in *" $2 "*) exit 100 ;; esac\necho "Package: $2"\n',
    "apt-get": 'echo "$*" >>"$ASKED"\n',
    "id": 'echo "$USER_ID"\n',
    "sudo": "exit 1\n",
}


def install(kind="tests", user=0, lists=True, **packages):
    """The exit status, what was said, and what apt-get was asked for."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in PROGRAMS.items():
            program = pathlib.Path(folder, name)
            program.write_text("#!/bin/sh\n" + text)
            program.chmod(0o755)
        asked = pathlib.Path(folder, "asked")
        asked.touch()
        settings = {"MISSING": "", "MENTIONED": "", "UNKNOWN": "", **packages}
        script = f'. "$0"; have_package_lists() {{ {"true" if lists else "false"}; }}; install_missing {kind}'
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script, str(LIBRARY)], text=True,
                              capture_output=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, **settings, "ASKED": str(asked), "USER_ID": str(user),
                                   "PATH": f"{folder}:{os.environ['PATH']}"})
        lines = [line.split("--no-install-recommends")[-1].split() for line in asked.read_text().splitlines()
                 if " install " in line]
        return done.returncode, done.stdout + done.stderr, lines


class InstallTests(unittest.TestCase):
    def test_nothing_is_missing(self):
        self.assertEqual(install(), (0, "", []))

    def test_what_is_missing_and_to_be_had(self):
        status, _, asked = install(MISSING="jq faketime")
        self.assertEqual((status, asked), (0, [["jq", "faketime"]]))

    def test_building_needs_no_test_package(self):
        self.assertEqual(install("build", MISSING="jq faketime")[2], [["jq"]])

    def test_building_installs_what_a_plain_meson_setup_wants(self):
        """tools/dev run configures with tests, as meson does unless told otherwise."""
        self.assertEqual(install("build", MISSING="libcmocka-dev")[2], [["libcmocka-dev"]])

    def test_a_package_that_is_only_mentioned_is_not_asked_for(self):
        status, said, asked = install(MISSING="jq chromium chromium-driver", MENTIONED="chromium", UNKNOWN="chromium-driver")
        self.assertEqual((status, asked), (0, [["jq"]]))
        self.assertIn("there is no package chromium here", said)
        self.assertIn("there is no package chromium-driver here", said)

    def test_what_the_distribution_lacks_takes_no_root(self):
        status, said, asked = install(user=1000, MISSING="chromium", MENTIONED="chromium")
        self.assertEqual((status, asked), (0, []))
        self.assertIn("there is no package chromium here", said)

    def test_without_lists_and_package_there_is_nothing_to_install(self):
        self.assertEqual(install(lists=False, MISSING="chromium", MENTIONED="chromium")[::2], (0, []))

    def test_without_root_an_optional_package_is_passed_over(self):
        status, said, asked = install(user=1000, MISSING="faketime")
        self.assertEqual((status, asked), (0, []))
        self.assertIn("skipped: faketime", said)

    def test_without_root_a_required_package_ends_it(self):
        status, said, asked = install(user=1000, MISSING="jq faketime chromium", MENTIONED="chromium")
        self.assertEqual((status, asked), (1, []))
        self.assertIn("apt-get install --no-install-recommends jq  faketime", said)


if __name__ == "__main__":
    unittest.main()
