/*
 * Stacks of their own for a block's threads. On x86-64 a switch saves what a call must keep;
 * elsewhere ucontext does it, which asks the kernel each time. AddressSanitizer is told.
 */
#include <stdlib.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#include "cudasim/sim.h"

#define STACK_BYTES ((size_t)128 << 10)
#define GUARD_BYTES ((size_t)4 << 10)

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else
#define __sanitizer_start_switch_fiber(save, bottom, size)                                         \
    do {                                                                                           \
        (void)(save);                                                                              \
        (void)(bottom);                                                                            \
        (void)(size);                                                                              \
    } while (0)
#define __sanitizer_finish_switch_fiber(save, bottom, size)                                        \
    do {                                                                                           \
        (void)(save);                                                                              \
        (void)(bottom);                                                                            \
        (void)(size);                                                                              \
    } while (0)
#endif

struct sim_fiber {
#ifdef __x86_64__
    void *top;
#else
    ucontext_t context;
#endif
    const void *bottom;
    size_t bytes;
    void *fake;
    void (*body)(void);
};

static struct sim_fiber scheduler; /* whoever resumes */
static struct sim_fiber *running;

#ifdef __x86_64__
void sim_fiber_switch(void **ret_top, void *top);

__asm__(".text\n"
        ".globl sim_fiber_switch\n"
        ".type sim_fiber_switch, @function\n"
        "sim_fiber_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size sim_fiber_switch, . - sim_fiber_switch\n");
#endif

static void switch_stacks(struct sim_fiber *from, struct sim_fiber *to)
{
    __sanitizer_start_switch_fiber(&from->fake, to->bottom, to->bytes);
#ifdef __x86_64__
    sim_fiber_switch(&from->top, to->top);
#else
    swapcontext(&from->context, &to->context);
#endif
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
}

static void begin(void)
{
    __sanitizer_finish_switch_fiber(NULL, &scheduler.bottom, &scheduler.bytes);
    running->body();
    abort();
}

/* A stack that returns to begin(). */
static void prepare(struct sim_fiber *fiber)
{
#ifdef __x86_64__
    void **const end = (void **)((char *)fiber->bottom + fiber->bytes);
    end[-1] = NULL;
    end[-2] = (void *)(uintptr_t)begin; /* what a call leaves: 8 bytes off a multiple of 16 */
    fiber->top = end - 8;
    for (int i = 3; i <= 8; i++) {
        end[-i] = NULL;
    }
#else
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = (void *)fiber->bottom;
    fiber->context.uc_stack.ss_size = fiber->bytes;
    makecontext(&fiber->context, begin, 0);
#endif
}

struct sim_fiber *sim_fiber_new(void (*body)(void))
{
    struct sim_fiber *fiber = calloc(1, sizeof *fiber);
    char *stack = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fiber == NULL || stack == MAP_FAILED) {
        sim_fault("no memory for another thread's stack");
    }
    mprotect(stack, GUARD_BYTES, PROT_NONE);
    fiber->bottom = stack + GUARD_BYTES;
    fiber->bytes = STACK_BYTES;
    fiber->body = body;
    prepare(fiber);
    return fiber;
}

void sim_fiber_resume(struct sim_fiber *fiber)
{
    running = fiber;
    switch_stacks(&scheduler, fiber);
    running = NULL;
}

void sim_fiber_yield(void)
{
    switch_stacks(running, &scheduler);
}

bool sim_fiber_holds(const void *at)
{
    const char *bottom = running->bottom;
    return (const char *)at >= bottom && (const char *)at < bottom + running->bytes;
}
