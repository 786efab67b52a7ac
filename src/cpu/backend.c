#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "base/ram.h"
#include "cpu/cpu.h"

#define THREADS_MAX 1024

int cpu__expect(bool ok, const char *what, struct err *err)
{
    return ok ? 0
              : err_set(err, ERR_INTERNAL,
                        "A matrix operation (%s) got shapes or types that "
                        "do not fit together.",
                        what);
}

void cpu__account(struct backend *be, int64_t bytes)
{
    be->bytes += bytes;
    if (be->bytes > be->peak_bytes) {
        be->peak_bytes = be->bytes;
    }
}

static void cpu_close(struct backend *be)
{
    mem_free(be);
}

static int64_t cpu_memory_available(struct backend *be)
{
    return ram_available_within(be->memory_limit); /* matrices lie in the host's memory */
}

static const struct backend_ops cpu_ops;

static const struct tile_isa *find_isa(const char *name)
{
    int i = 0;
    while (tile_isa_list(i) != NULL && name != NULL && strcmp(tile_isa_list(i)->name, name) != 0) {
        i++;
    }
    return tile_isa_list(i);
}

int backend_cpu_open(const char *isa, int threads, struct backend **ret, struct err *err)
{
    const struct tile_isa *loops = find_isa(isa);
    if (loops == NULL) {
        return err_set(err, ERR_UNSUPPORTED,
                       "This machine or this build lacks the instruction set \"%.40s\".", isa);
    }
    if (threads < 0 || threads > THREADS_MAX) {
        return err_at(err, ERR_INVALID, "#/threads", "The number of threads is 0 to %d.",
                      THREADS_MAX);
    }
    struct cpu_backend *cpu = mem_zalloc(sizeof *cpu);
    if (cpu == NULL) {
        return err_no_memory(err);
    }
    cpu->base.ops = &cpu_ops;
    cpu->base.threads = threads > 0 ? threads : omp_get_num_procs();
    cpu->isa = loops;
    cpu->base.isa = cpu->isa->name;
    *ret = &cpu->base;
    return 0;
}

static int cpu_open(int ordinal, int threads, struct backend **ret, struct err *err)
{
    if (ordinal != 0) {
        return err_at(err, ERR_UNSUPPORTED, "#/device",
                      "The CPU is one device: \"cpu\". Choose how much of it by threads.");
    }
    return backend_cpu_open(NULL, threads, ret, err);
}

const struct backend_provider backend_cpu_provider = {
    .name = "cpu",
    .open = cpu_open,
};

static const struct backend_ops cpu_ops = {
    .name = "cpu",
    .close = cpu_close,
    .mat_new = cpu__mat_new,
    .mat_free = cpu__mat_free,
    .mat_put = cpu__mat_put,
    .mat_get = cpu__mat_get,
    .copy = cpu__copy,
    .col_dots = cpu__col_dots,
    .col_axpby = cpu__col_axpby,
    .gather_rows = cpu__gather_rows,
    .add_rows = cpu__add_rows,
    .deflate_diag = cpu__deflate_diag,
    .add_diag = cpu__add_diag,
    .scale_rows = cpu__scale_rows,
    .clear_upper = cpu__clear_upper,
    .gemm = cpu__gemm,
    .syrk = cpu__syrk,
    .trsm = cpu__trsm,
    .potrf = cpu__potrf,
    .eigh = cpu__eigh,
    .points_new = cpu__points_new,
    .points_free = cpu__points_free,
    .kmv = cpu__kmv,
    .kblock = cpu__kblock,
    .kdiag = cpu__kdiag,
    .kmtkv = cpu__kmtkv,
    .ksketch = cpu__ksketch,
    .points_cache = cpu__points_cache,
    .points_grid = cpu__points_grid,
    .points_lanes = cpu__points_lanes,
    .memory_available = cpu_memory_available,
};
