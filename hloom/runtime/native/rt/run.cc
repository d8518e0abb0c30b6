// Runs of saved programs for C programs, in memory of the caller's, alone or with other devices.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <atomic>
#include <new>

#include "../context.h"
#include "program.h"

struct hloom_rt_pool {
  hl_pool* threads;
};

struct hloom_rt_started {
  hloom_rt_program* program;
  std::vector<hloom_rt_array> inputs, outputs;
  hloom_rt_array temp;
  std::vector<hloom::UserData> user_data;
  hloom::Launch launch;
  hl_context* context;
  pthread_t thread;
  std::atomic<int32_t> is_done{0};
  int32_t status = 0;
};

namespace {

using hloom::rt::CopyIn;
using hloom::rt::CopyOut;
using hloom::rt::kTempAlignment;
using hloom::rt::Place;
using hloom::rt::Stands;
using hloom::rt::told;

static_assert(sizeof(hloom_rt_user_data) == sizeof(hloom::UserData) &&
              offsetof(hloom_rt_user_data, data) == offsetof(hloom::UserData, data));

std::string short_array(const char* what, size_t k, const hloom_rt_array& a,
                        const hloom_rt_shape& shape) {
  bool is_aligned = reinterpret_cast<uintptr_t>(a.data) % shape.alignment == 0;
  if (shape.size_bytes == 0 ||
      (a.data != nullptr && a.size_bytes == shape.size_bytes && is_aligned))
    return "";
  char words[256];
  snprintf(words, sizeof(words), "%s %zu is %zu bytes at %p; %s takes %zu at a multiple of %zu",
           what, k, a.size_bytes, a.data, shape.text, shape.size_bytes, shape.alignment);
  return words;
}

std::string misfit(const hloom_rt_program& p, const hloom_rt_array* inputs,
                   const hloom_rt_array* outputs, const hloom_rt_array& temp) {
  std::string words;
  for (size_t k = 0; k < p.inputs.size() && words.empty(); ++k)
    words = short_array("input", k, inputs[k], p.inputs[k]);
  for (size_t k = 0; k < p.outputs.size() && words.empty(); ++k)
    words = short_array("output", k, outputs[k], p.outputs[k]);
  if (!words.empty() || p.temp_bytes == 0) return words;
  if (temp.data == nullptr || temp.size_bytes < p.temp_bytes ||
      reinterpret_cast<uintptr_t>(temp.data) % kTempAlignment != 0) {
    char text[160];
    snprintf(text, sizeof(text),
             "temporary memory is %zu bytes at %p; %zu at a multiple of %zu are"
             " needed",
             temp.size_bytes, temp.data, p.temp_bytes, kTempAlignment);
    return text;
  }
  return "";
}

int32_t run(hloom_rt_program& p, const hloom::Launch& launch, hl_context* context,
            const hloom_rt_array* inputs, const hloom_rt_array* outputs,
            const hloom_rt_array& temp) {
  constexpr size_t kFew = 256;
  void* few[kFew];
  std::vector<void*> many(p.places.size() > kFew ? p.places.size() : 0);
  void** table = many.empty() ? few : many.data();
  for (size_t k = 0; k < p.places.size(); ++k) {
    const Place& place = p.places[k];
    switch (place.where) {
      case Stands::kFixed:
        table[k] = p.core->fixed[k];
        break;
      case Stands::kInput:
        table[k] = inputs[place.at].data;
        break;
      case Stands::kOutput:
        table[k] = outputs[place.at].data;
        break;
      case Stands::kTemp:
        table[k] = static_cast<char*>(temp.data) + place.at;
        break;
      case Stands::kNowhere:
        table[k] = nullptr;
    }
  }
  for (const CopyIn& c : p.copies_in) {
    void* to = table[c.allocation];
    if (c.size_bytes > 0 && to != inputs[c.input].data)
      memcpy(to, inputs[c.input].data, static_cast<size_t>(c.size_bytes));
  }
  int32_t status = hloom::execute(launch, context, p.core->entry, table);
  if (status != HL_OK) return status;
  for (const CopyOut& c : p.copies_out)
    if (c.size_bytes > 0)
      memmove(outputs[c.output].data, static_cast<char*>(table[c.allocation]) + c.offset,
              static_cast<size_t>(c.size_bytes));
  return HL_OK;
}

// What is wrong with the options of a run; empty, and the launch, where nothing is.
std::string launched(const hloom_rt_program& p, const hloom_rt_options* options,
                     hloom::Launch* launch) {
  int64_t count = p.replicas * p.partitions;
  char words[160];
  const hloom_rt_devices* devices = options == nullptr ? nullptr : options->devices;
  if (devices == nullptr && count > 1) {
    snprintf(words, sizeof(words),
             "%.60s is for %lld devices, which run it together: hloom_rt_run_with, options.devices",
             p.core->name.c_str(), static_cast<long long>(count));
    return words;
  }
  if (options == nullptr) return "";
  if (options->pool != nullptr) launch->pool = options->pool->threads;
  launch->user_data = {static_cast<int64_t>(options->user_data_count),
                       reinterpret_cast<const hloom::UserData*>(options->user_data)};
  launch->local_device = options->local_device;
  launch->launch_id = options->launch_id;
  if (devices == nullptr) return "";
  launch->join = devices->join;
  launch->devices = devices->all;
  launch->device = devices->number_of(options->device);
  bool is_theirs = static_cast<int64_t>(devices->assignment.size()) == count;
  if (is_theirs && launch->device >= 0) return "";
  snprintf(words, sizeof(words),
           is_theirs ? "device %lld is not in the assignment"
                     : "the devices are not %lld, as many as the program is for",
           static_cast<long long>(is_theirs ? options->device : count));
  return words;
}

hl_context* context_for(hloom_rt_program& p, const hloom::Launch& launch) {
  return launch.devices == nullptr ? hl_program_context(p.core)
                                   : hloom::context_of_device(p.core, launch.device);
}

void* in_thread(void* argument) {
  auto* each = static_cast<hloom_rt_started*>(argument);
  each->status = run(*each->program, each->launch, each->context, each->inputs.data(),
                     each->outputs.data(), each->temp);
  each->is_done.store(1, std::memory_order_release);
  return nullptr;
}

}  // namespace

extern "C" {

int32_t hloom_rt_run(hloom_rt_program* program, const hloom_rt_array* inputs,
                     const hloom_rt_array* outputs, hloom_rt_array temp, char* error,
                     size_t error_size) {
  return hloom_rt_run_with(program, nullptr, inputs, outputs, temp, error, error_size);
}

int32_t hloom_rt_run_with(hloom_rt_program* program, const hloom_rt_options* options,
                          const hloom_rt_array* inputs, const hloom_rt_array* outputs,
                          hloom_rt_array temp, char* error, size_t error_size) {
  hloom::Launch launch;
  std::string words = launched(*program, options, &launch);
  if (words.empty()) words = misfit(*program, inputs, outputs, temp);
  if (!words.empty()) return told(HL_INVALID_ARGUMENT, words, error, error_size);
  hl_context* context = context_for(*program, launch);
  if (context == nullptr)
    return told(HL_RESOURCE_EXHAUSTED, "no memory for a run", error, error_size);
  int32_t status = run(*program, launch, context, inputs, outputs, temp);
  if (status != HL_OK) told(status, hl_context_message(context), error, error_size);
  hl_program_put_back(program->core, context);
  return status;
}

hloom_rt_started* hloom_rt_start(hloom_rt_program* program, const hloom_rt_array* inputs,
                                 const hloom_rt_array* outputs, hloom_rt_array temp, char* error,
                                 size_t error_size) {
  return hloom_rt_start_with(program, nullptr, inputs, outputs, temp, error, error_size);
}

hloom_rt_started* hloom_rt_start_with(hloom_rt_program* program, const hloom_rt_options* options,
                                      const hloom_rt_array* inputs, const hloom_rt_array* outputs,
                                      hloom_rt_array temp, char* error, size_t error_size) {
  hloom::Launch launch;
  std::string words = launched(*program, options, &launch);
  if (words.empty()) words = misfit(*program, inputs, outputs, temp);
  auto* run = words.empty() ? new (std::nothrow) hloom_rt_started : nullptr;
  hl_context* context = run != nullptr ? context_for(*program, launch) : nullptr;
  if (context == nullptr) {
    delete run;
    told(0, words.empty() ? "no memory for a run" : words, error, error_size);
    return nullptr;
  }
  run->program = program;
  run->inputs.assign(inputs, inputs + program->inputs.size());
  run->outputs.assign(outputs, outputs + program->outputs.size());
  run->temp = temp;
  run->user_data.assign(launch.user_data.entries,
                        launch.user_data.entries + launch.user_data.count);
  run->launch = launch;
  run->launch.user_data.entries = run->user_data.data();
  run->context = context;
  if (int failed = pthread_create(&run->thread, nullptr, in_thread, run); failed != 0) {
    hl_program_put_back(program->core, context);
    delete run;
    told(0, std::string("no thread for a run: ") + strerror(failed), error, error_size);
    return nullptr;
  }
  return run;
}

int32_t hloom_rt_is_done(const hloom_rt_started* run) {
  return run->is_done.load(std::memory_order_acquire);
}

void hloom_rt_cancel(hloom_rt_started* run) { hl_cancel(run->context); }

int32_t hloom_rt_wait(hloom_rt_started* run, char* error, size_t error_size) {
  pthread_join(run->thread, nullptr);
  int32_t status = run->status;
  if (status != HL_OK) told(status, hl_context_message(run->context), error, error_size);
  // Whoever cancelled it came too late, perhaps.
  __atomic_store_n(&run->context->cancel, 0, __ATOMIC_RELAXED);
  hl_program_put_back(run->program->core, run->context);
  delete run;
  return status;
}

hloom_rt_pool* hloom_rt_pool_new(int32_t threads) {
  auto* made = new (std::nothrow) hloom_rt_pool{hl_pool_new(threads < 1 ? 1 : threads)};
  if (made != nullptr && made->threads != nullptr) return made;
  delete made;
  return nullptr;
}

void hloom_rt_pool_free(hloom_rt_pool* pool) {
  if (pool != nullptr) hl_pool_free(pool->threads);
  delete pool;
}

void* hloom_rt_user_data_of(hl_context* context, int64_t type_id) {
  return hl_context_user_data(context, type_id);
}

}  // extern "C"
