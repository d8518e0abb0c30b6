// Functions for instructions beyond the baseline, compiled alike by g++ and clang++.
//
//   HLOOM_TARGET_BEGIN("avx2,fma")
//   ... functions; callers ask __builtin_cpu_supports first ...
//   HLOOM_TARGET_END
#ifndef HLOOM_INSTRUCTION_SET_H
#define HLOOM_INSTRUCTION_SET_H

#define HLOOM_PRAGMA(...) _Pragma(#__VA_ARGS__)

// HLOOM_ONE_INSTRUCTION_SET: what the compiler is told, alone; asking takes a library that C
// libraries of Windows do not link.
#if defined(HLOOM_ONE_INSTRUCTION_SET)
#define HLOOM_X86_TARGETS 0
#elif defined(__x86_64__) && defined(__clang__)
#define HLOOM_X86_TARGETS 1
#define HLOOM_TARGET_BEGIN(features) \
  HLOOM_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define HLOOM_TARGET_END _Pragma("clang attribute pop")
#elif defined(__x86_64__) && defined(__GNUC__)
#define HLOOM_X86_TARGETS 1
#define HLOOM_TARGET_BEGIN(features) _Pragma("GCC push_options") HLOOM_PRAGMA(GCC target(features))
#define HLOOM_TARGET_END _Pragma("GCC pop_options")
#endif

// A function compiled for each of these levels; the loader takes the best that the processor has.
#if HLOOM_X86_TARGETS
#define HLOOM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HLOOM_CLONES
#endif

#endif
