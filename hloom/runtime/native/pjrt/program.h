// Compiled programs, as executions and questions about them need them.
#ifndef HLOOM_RUNTIME_PJRT_PROGRAM_H
#define HLOOM_RUNTIME_PJRT_PROGRAM_H

#include "compiler.h"
#include "objects.h"

struct hl_pjrt_reply {
  hl::pjrt::Program* program = nullptr;
  std::string bytes;
  std::vector<std::pair<std::string, double>> numbers;
  int64_t code = 0;
  std::string message;
};

namespace hl::pjrt {

struct Array {
  int64_t allocation, offset, flags, size;
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  int memory_kind;
  std::string sharding;
};

// Where a result's memory comes from.
enum class Source : uint8_t {
  kBlock,   // a fresh block, which the result keeps
  kWritten, // an argument that the program has written
  kCopy,    // memory that is somebody else's: an argument only read, a constant, another result's
  kNone,    // a token
};

struct Result : Array {
  Source source;
  int64_t argument;  // kWritten: its number
};

// Counted: executables and runs under way hold it.
struct Program {
  std::atomic<int32_t> references{1};
  int64_t handle;
  std::string name, fingerprint;
  hl_main_function entry;
  hl_pool* pool;
  hl_rng* random;
  hl_queue *infeed, *outfeed;
  hl_call_site* sites;
  int64_t site_count;
  std::vector<void*> fixed;
  std::vector<hl_pjrt_block> blocks;
  std::vector<Array> arguments;
  std::vector<Result> results;
  int64_t replicas, partitions;
  std::vector<int64_t> devices;
  bool calls_host, is_portable;
  int64_t code_bytes, temporary_bytes, alias_bytes;

  // How long a run takes, remembered: short ones are not worth another thread.
  std::atomic<int64_t> run_ns{-1};

  // Contexts that no run uses now.
  Spin lock;
  std::vector<hl_context*> contexts;
};

Program* retained(Program* program);
void release(Program* program);
hl_context* context_for(Program* program);
void put_back(Program* program, hl_context* context);

// The compiler; null at the end of a process, when there is none any more.
class Compiler {
 public:
  Compiler();
  const hl_pjrt_compiler* operator->() const { return table_; }
  explicit operator bool() const { return table_ != nullptr; }

 private:
  const hl_pjrt_compiler* table_;
};

void set_platform_version(const char* text);
void set_stablehlo_version(int64_t major, int64_t minor, int64_t patch);
void remember_queue(Queue* queue);

}  // namespace hl::pjrt

struct PJRT_Executable {
  explicit PJRT_Executable(hl::pjrt::Program* program) : program(program) {}
  hl::pjrt::Program* program;
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

struct PJRT_LoadedExecutable {
  PJRT_Client* client;
  hl::pjrt::Program* program;
  std::vector<PJRT_Device*> devices;
  std::vector<PJRT_LogicalDeviceIds> logical;
  std::atomic<bool> is_deleted{false};
};

#endif
