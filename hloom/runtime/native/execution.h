// One run of a program: where its arguments stand, what is copied, what is fresh, what comes out.
//
// All of that is decided here, for every host:
// * an argument that is only read is used where it stands, if it is aligned;
// * one that the program writes is given for good with its block, or is copied;
// * temporary memory and results are fresh blocks of the arena, or the caller's own memory;
// * a result is a fresh block, a block that was an argument, or a copy of what belongs to another.
// Under HLOOM_GUARD everything that the program sees stands between protected pages.
#ifndef HLOOM_RUNTIME_EXECUTION_H
#define HLOOM_RUNTIME_EXECUTION_H

#include "loaded_program.h"

namespace hloom {

struct Launch;

class Execution {
 public:
  // Both arrays are as long as the program says, and are written by `hand_out`.
  Execution(hl_program& program, hl_argument* arguments, hl_result* results);
  // Frees what no result has; blocks that were arguments stay the caller's.
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Finds memory for everything. On an error nothing has been changed.
  int32_t place(Problem* problem);
  int32_t run(hl_context* context, hl_main_function entry = nullptr);
  int32_t run(hl_context* context, const Launch& launch, hl_main_function entry);
  // Base addresses by allocation, for who runs the program otherwise, and says when it has.
  void** table() { return table_; }
  void has_run(int32_t status);
  // Gives results their memory. On an error there are none.
  int32_t hand_out(Problem* problem);

 private:
  // A block that stands for memory of the caller's, and goes back there afterwards if that is given.
  struct StandIn {
    int64_t allocation;
    void* block;
    void* original;  // null: it is only read
    int64_t size_bytes;
  };

  void* block(int64_t size_bytes);
  int32_t out_of_memory(Problem* problem);
  bool place_argument(size_t k);
  bool place_result(size_t k, Problem* problem);
  bool stand_in(int64_t allocation, void* original, int64_t size, bool is_filled, void* goes_back);
  void name_blocks();
  // What owns the memory of an allocation passes from here on to a result.
  void pass_on(const hl_program::Result& result, hl_result* to);

  static constexpr size_t kFewAllocations = 256;
  hl_program& program_;
  hl_argument* arguments_;
  hl_result* results_;
  void* few_[kFewAllocations];
  std::vector<void*> many_;
  void** table_;  // by allocation
  size_t block_count_ = 0;
  int64_t wanted_bytes_ = 0;  // of the block that was asked for last
  std::vector<StandIn> stand_ins_;
  std::vector<int64_t> given_;  // allocations of results that are the caller's memory
};

}  // namespace hloom

#endif
