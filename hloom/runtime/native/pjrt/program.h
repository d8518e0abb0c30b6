// Compiled programs, as executions and questions about them need them.
#ifndef HLOOM_RUNTIME_PJRT_PROGRAM_H
#define HLOOM_RUNTIME_PJRT_PROGRAM_H

#include <fenv.h>

#include "../communicator_in_process.h"
#include "../context.h"
#include "compiler.h"
#include "objects.h"
#include "small_array.h"

struct hl_pjrt_reply {
  hloom::pjrt::Ref<hloom::pjrt::Program> program;
  std::string bytes;
  std::vector<std::pair<std::string, double>> numbers;
  int64_t code = 0;
  std::string message;
};

namespace hloom::pjrt {

// An argument or a result, as callers see it.
struct Array {
  int64_t leaf;  // its number among the program's arguments or results; -1: a token that is none
  bool is_donated;
  int64_t size;  // bytes of what a device has
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  const Layout* layout;  // of a shard as of the whole
  int memory_kind;
  std::string sharding;
};

using Result = Array;

// Names of kernels by address.
using StepNames = std::unordered_map<const void*, std::string>;

// Counted: executables and runs under way hold it.
struct Program : Live<Program> {
  explicit Program(hl_program* core) : core(Ref<hl_program>::of(core)) {}
  ~Program();

  std::atomic<int32_t> references{1};
  const Ref<hl_program> core;  // what runs
  int64_t handle = 0;          // what the compiler calls it; 0: it knows nothing of it
  std::string name, fingerprint;
  std::vector<Array> arguments;
  std::vector<Result> results;
  int64_t replicas = 1, partitions = 1;
  std::vector<int64_t> devices;
  bool calls_host = false, is_portable = false;
  // Devices have to do with one another in it, and wait so long (`patience`).
  bool is_together = false;
  Patience patience;
  Operations operations;  // its collectives

  // How long a run takes, remembered: short ones are not worth another thread. Before the first run
  // there is a guess, or -1.
  int64_t expected_ns = -1;
  std::atomic<int64_t> run_ns{-1};

  Spin lock;
  std::unique_ptr<StepNames> step_names;  // null: nobody has asked yet (profiler.cc)
};

// One execution. Arrays are the caller's.
struct Run {
  Program* program;
  PJRT_Device* device;
  Ref<Storage>* inputs;   // one per argument; those that it has run with are null
  Ref<Storage>* outputs;  // one per result, to be filled
  hloom::UserDataList user_data;
  InProcess* own = nullptr;  // through which it meets the other devices; null: it does not
  const hl_host_transfers* transfers = nullptr;  // the host's callbacks; null: it gave none
};

// Runs it here; its inputs are there. A code, with a message if it is not 0. Inputs are null afterwards.
int execute(Run* run, std::string* message);
// The arguments of a run on one device, held. Those donated have left their buffers, and are theirs
// again if the run is not committed to.
class Inputs {
 public:
  Inputs(const Program& program, PJRT_Buffer* const* arguments)
      : program_(program),
        arguments_(arguments),
        storages_(program.arguments.size()),
        is_taken_(program.arguments.size()) {}
  ~Inputs();
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  // On an error the buffers are as they were.
  PJRT_Error* take(const PJRT_ExecuteOptions* options);
  // The run begins, and may write what is donated: nothing of it is given back from here on.
  void commit();
  // In the layouts that the program reads.
  Ref<Storage>* storages() { return storages_.data(); }
  size_t size() const { return storages_.size(); }

 private:
  PJRT_Error* take_one(const PJRT_ExecuteOptions* options, size_t k);
  PJRT_Error* lay_out();

  const Program& program_;
  PJRT_Buffer* const* arguments_;
  SmallArray<Ref<Storage>> storages_;
  SmallArray<bool> is_taken_;
  // What buffers had whose storages are read in another layout.
  std::vector<std::pair<size_t, Ref<Storage>>> originals_;
};
// Copies what is in the host's memory, if it is not much: who calls with it may change it once the
// call has returned, and some do so before the run has begun.
void copy_small_inputs(Ref<Storage>* inputs, size_t count);
// An error of the call, and not of its results, if an array is larger than the machine's memory.
PJRT_Error* fits_memory(const Program& program);
// On whose thread a run is done.
enum class RunsOn { kCaller, kProgram };
RunsOn runs_on(const Program& program, const PJRT_Device* device, bool are_ready);
// Waits for storages; the code and message of one that failed.
int wait_for(const Ref<Storage>* storages, size_t count, std::string* message);
// One run of all devices of an executable, at the same time, each on its own arrays.
PJRT_Error* launch_together(PJRT_LoadedExecutable_Execute_Args* arguments);

Program* retained(Program* program);
void release(Program* program);
// The program of these facts (the section LAUNCH), which holds `core` from here on, too.
PJRT_Error* with_launch_spec(hl_program* core, std::string_view launch_spec, Ref<Program>* program);
// The compiler; null at the end of a process, when there is none any more. While it is at work this
// thread rounds as C says: jaxlib calls with numbers below the normal ones taken for zero, which
// would change what constants are and what is folded.
class Compiler {
 public:
  Compiler();
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;
  const hl_pjrt_compiler* operator->() const { return table_; }
  explicit operator bool() const { return table_ != nullptr; }

 private:
  const hl_pjrt_compiler* table_;
  fenv_t callers_;
};

void set_platform_version(const char* text);
void set_stablehlo_version(int64_t major, int64_t minor, int64_t patch);
void remember_queue(Queue* queue);

}  // namespace hloom::pjrt

struct PJRT_Executable : hloom::pjrt::Live<PJRT_Executable> {
  explicit PJRT_Executable(hloom::pjrt::Ref<hloom::pjrt::Program> program)
      : program(std::move(program)) {}
  const hloom::pjrt::Ref<hloom::pjrt::Program> program;
  // Answers that the caller may look at as long as the executable lives; made when asked for.
  std::mutex mutex;
  std::string text;
  bool has_costs = false;
  std::vector<std::string> cost_names;
  std::vector<PJRT_NamedValue> costs;
  std::vector<const char*> kinds[2];
  std::vector<size_t> kind_sizes[2];
  std::vector<PJRT_Buffer_Type> types;
  std::vector<int64_t> dims;
  std::vector<size_t> ranks;
  std::vector<const char*> shardings[2];
  std::vector<size_t> sharding_sizes[2];
};

struct PJRT_LoadedExecutable : hloom::pjrt::Live<PJRT_LoadedExecutable> {
  PJRT_Client* client = nullptr;
  hloom::pjrt::Ref<hloom::pjrt::Program> program;
  std::vector<PJRT_DeviceDescription*> assigned;  // replica by replica; none: it runs anywhere
  // Those of this process, and which they are of the ones assigned.
  std::vector<PJRT_Device*> devices;
  std::vector<int64_t> positions;
  std::vector<PJRT_LogicalDeviceIds> logical;
  bool is_spread() const { return devices.size() < assigned.size(); }  // over several processes
  std::atomic<bool> is_deleted{false};
};

#endif
