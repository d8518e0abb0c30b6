// Programs on several devices of this process; see devices.cc.
#ifndef HLOOM_RUNTIME_DEVICES_H
#define HLOOM_RUNTIME_DEVICES_H

#include "host.h"

typedef struct hl_devices hl_devices;
typedef struct hl_processes hl_processes;

// Runs a program on all devices at once, each with its context and base addresses. Returns the first
// failure, with its sentence in `message`. Several runs may be under way.
HL_API int32_t hl_devices_run(hl_devices* devices, hl_context** contexts, hl_main_function fn,
                              void*** buffers, char* message, int64_t size);

#endif
