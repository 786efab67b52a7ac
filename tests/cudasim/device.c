#include <cuda_runtime.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudasim/sim.h"

#define VERSION 13000 /* of driver and runtime */
#define DEVICES_MAX 8

static int current;
static cudaError_t last, broken[DEVICES_MAX];
static uint64_t random_state;

void sim_fault(const char *format, ...)
{
    char where[512] = "";
    va_list args;
    (void)sim_where(where, sizeof where);
    fflush(stdout);
    fprintf(stderr, "cudasim: %s", where);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

int sim_error(int status)
{
    const int told = broken[current] != cudaSuccess ? (int)broken[current] : status;
    if (told != cudaSuccess) {
        last = (cudaError_t)told;
    }
    return told;
}

void sim_break(int status)
{
    broken[sim_working_device()] = (cudaError_t)status;
}

bool sim_is_broken(int device)
{
    return broken[device] != cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t status = sim_is_broken(current) ? broken[current] : last;
    last = cudaSuccess;
    return status;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
        return "invalid resource handle";
    case cudaErrorLaunchOutOfResources:
        return "too many resources requested for launch";
    case cudaErrorIllegalInstruction:
        return "an illegal instruction was encountered";
    default:
        return "unknown error";
    }
}

/* ---- the environment ---- */

static const char *setting(const char *name, const char *usual)
{
    const char *text = getenv(name);
    return text != NULL ? text : usual;
}

static long long number_setting(const char *name, const char *usual)
{
    char *end = NULL;
    const char *text = setting(name, usual);
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || value <= 0) {
        sim_fault("%s is \"%s\", not a number above 0", name, text);
    }
    return value;
}

bool sim_has_fault(const char *name)
{
    return strcmp(setting("CUDASIM_FAULT", ""), name) == 0;
}

bool sim_cannot_start(const char *file)
{
    const char *fault = setting("CUDASIM_FAULT", ""), *slash = strrchr(file, '/');
    return strncmp(fault, "launch:", 7) == 0 &&
           strcmp(fault + 7, slash != NULL ? slash + 1 : file) == 0;
}

/* Capabilities times ten; returns how many. */
static int read_devices(int ret[DEVICES_MAX])
{
    const char *text = setting("CUDASIM_DEVICES", "9.0");
    int count = 0;
    while (*text != '\0' && count < DEVICES_MAX) {
        char *end = NULL;
        ret[count++] = (int)(strtod(text, &end) * 10.0 + 0.5);
        if (end == text || (*end != ',' && *end != '\0')) {
            sim_fault("CUDASIM_DEVICES has no capability at \"%s\"", text);
        }
        text = *end == ',' ? end + 1 : end;
    }
    return count;
}

int sim_device_count(void)
{
    int capabilities[DEVICES_MAX];
    return read_devices(capabilities);
}

int sim_capability(int device)
{
    int capabilities[DEVICES_MAX];
    return device >= 0 && device < read_devices(capabilities) ? capabilities[device] : 0;
}

/* The programming guide's table of technical specifications by compute capability. */
size_t sim_shared_max(int device)
{
    switch (sim_capability(device)) {
    case 75:
        return (size_t)64 << 10;
    case 80:
    case 87:
        return (size_t)163 << 10;
    case 86:
    case 89:
    case 120:
        return (size_t)99 << 10;
    default:
        return SIM_SHARED_MAX;
    }
}

size_t sim_memory_total(void)
{
    return (size_t)number_setting("CUDASIM_MEMORY", "4294967296");
}

int64_t sim_seed(void)
{
    return number_setting("CUDASIM_SEED", "1");
}

/* splitmix64. */
uint64_t sim_random(void)
{
    if (random_state == 0) {
        random_state = (uint64_t)sim_seed();
    }
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* ---- the program ---- */

struct search {
    const char *at;
    bool found;
};

static int search_program(struct dl_phdr_info *program, size_t size, void *context)
{
    struct search *search = context;
    (void)size;
    for (int i = 0; i < program->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &program->dlpi_phdr[i];
        const char *begin = (const char *)(program->dlpi_addr + part->p_vaddr);
        if (part->p_type == PT_LOAD && (part->p_flags & PF_W) == 0 && search->at >= begin &&
            search->at < begin + part->p_memsz) {
            search->found = true;
        }
    }
    return search->found;
}

bool sim_constant(const void *at)
{
    struct search search = {.at = at};
    (void)dl_iterate_phdr(search_program, &search);
    return search.found;
}

/* ---- the runtime's functions ---- */

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = sim_device_count();
    return sim_error(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    int capabilities[DEVICES_MAX];
    if (device < 0 || device >= read_devices(capabilities)) {
        return sim_error(cudaErrorInvalidDevice);
    }
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "simulated device %d", device);
    properties->major = capabilities[device] / 10;
    properties->minor = capabilities[device] % 10;
    properties->multiProcessorCount = 4;
    properties->totalGlobalMem = sim_memory_total();
    properties->sharedMemPerBlock = SIM_STATIC_MAX;
    properties->sharedMemPerBlockOptin = sim_shared_max(device);
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= sim_device_count()) {
        return sim_error(cudaErrorInvalidDevice);
    }
    current = device;
    return cudaSuccess;
}

int sim_current_device(void)
{
    return current;
}

cudaError_t cudaMalloc(void **ret, size_t bytes)
{
    *ret = bytes > 0 && !sim_is_broken(current) ? sim_memory_new(current, bytes) : NULL;
    return sim_error(bytes > 0 && *ret == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFree(void *data)
{
    if (data != NULL) {
        sim_memory_free(data);
    }
    return sim_error(cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = sim_memory_left(current);
    *total = sim_memory_total();
    return sim_error(cudaSuccess);
}
