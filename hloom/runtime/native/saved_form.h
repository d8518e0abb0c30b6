// The records of saved programs: written by make_saved_form.py from hloom/program/saved_form.py,
// which says what they are. Don't edit.
#ifndef HLOOM_RUNTIME_SAVED_FORM_H
#define HLOOM_RUNTIME_SAVED_FORM_H

#include <stddef.h>
#include <stdint.h>

namespace hloom::saved {

inline constexpr char kMagic[] = "hloomexe";
inline constexpr uint32_t kVersion = 5;
inline constexpr uint32_t kByteOrder = 0x1020304;
inline constexpr uint64_t kPage = 4096;
inline constexpr uint32_t kMostSections = 4096;
inline constexpr int64_t kNowhere = -1;
enum SectionKind : uint32_t { kLabels = 1, kProgram = 2, kObjects = 3, kThunks = 4, kLaunch = 5, kOptions = 6, kModule = 7, kConstants = 8 };
enum AllocationKind : int64_t { kParameterMemory, kConstantMemory, kOutputMemory, kTempMemory };

// Where in its section something stands, and how many of it there are.
struct Range {
  int64_t at, count;
};

// How a file begins. `crc` is of what stands before it here, and of the rows.
struct Head {
  int64_t magic;
  uint32_t version;
  uint32_t byte_order;
  int64_t size;
  uint32_t section_count;
  uint32_t crc;
};
static_assert(sizeof(Head) == 32);
static_assert(offsetof(Head, magic) == 0);
static_assert(offsetof(Head, version) == 8);
static_assert(offsetof(Head, byte_order) == 12);
static_assert(offsetof(Head, size) == 16);
static_assert(offsetof(Head, section_count) == 24);
static_assert(offsetof(Head, crc) == 28);

// Where a section stands. The rows follow the head.
struct Section {
  uint32_t kind;
  uint32_t crc;
  int64_t at;
  int64_t size;
};
static_assert(sizeof(Section) == 24);
static_assert(offsetof(Section, kind) == 0);
static_assert(offsetof(Section, crc) == 4);
static_assert(offsetof(Section, at) == 8);
static_assert(offsetof(Section, size) == 16);

// A label.
struct Label {
  Range name;
  Range text;
};
static_assert(sizeof(Label) == 32);
static_assert(offsetof(Label, name) == 0);
static_assert(offsetof(Label, text) == 16);

// All labels.
struct Labels {
  Range labels;
};
static_assert(sizeof(Labels) == 16);
static_assert(offsetof(Labels, labels) == 0);

// A block of memory of a run. `kind` is an AllocationKind, `output_index` nowhere where the parameter is not returned; constants stand at `constant_at` of their section.
struct Allocation {
  int64_t size_bytes;
  int64_t kind;
  int64_t parameter_number;
  Range shape_index;
  Range output_index;
  int64_t is_donated;
  int64_t space;
  int64_t constant_at;
  int64_t constant_bytes;
};
static_assert(sizeof(Allocation) == 88);
static_assert(offsetof(Allocation, size_bytes) == 0);
static_assert(offsetof(Allocation, kind) == 8);
static_assert(offsetof(Allocation, parameter_number) == 16);
static_assert(offsetof(Allocation, shape_index) == 24);
static_assert(offsetof(Allocation, output_index) == 40);
static_assert(offsetof(Allocation, is_donated) == 56);
static_assert(offsetof(Allocation, space) == 64);
static_assert(offsetof(Allocation, constant_at) == 72);
static_assert(offsetof(Allocation, constant_bytes) == 80);

// A leaf of the parameters. `allocation` is -1 where nothing reads it.
struct Parameter {
  int64_t number;
  Range index;
  Range shape;
  int64_t allocation;
  int64_t size_bytes;
};
static_assert(sizeof(Parameter) == 56);
static_assert(offsetof(Parameter, number) == 0);
static_assert(offsetof(Parameter, index) == 8);
static_assert(offsetof(Parameter, shape) == 24);
static_assert(offsetof(Parameter, allocation) == 40);
static_assert(offsetof(Parameter, size_bytes) == 48);

// A leaf of the result. `allocation` is -1 for a token.
struct Result {
  Range index;
  Range shape;
  int64_t allocation;
  int64_t offset;
  int64_t size_bytes;
};
static_assert(sizeof(Result) == 56);
static_assert(offsetof(Result, index) == 0);
static_assert(offsetof(Result, shape) == 16);
static_assert(offsetof(Result, allocation) == 32);
static_assert(offsetof(Result, offset) == 40);
static_assert(offsetof(Result, size_bytes) == 48);

// Machine code, in its section.
struct Object {
  int64_t at;
  int64_t size;
};
static_assert(sizeof(Object) == 16);
static_assert(offsetof(Object, at) == 0);
static_assert(offsetof(Object, size) == 8);

// An operand or result of a custom call. `allocation` is -1 for a token.
struct CallBuffer {
  int64_t dtype;
  Range dims;
  int64_t allocation;
  int64_t offset;
  int64_t size_bytes;
};
static_assert(sizeof(CallBuffer) == 48);
static_assert(offsetof(CallBuffer, dtype) == 0);
static_assert(offsetof(CallBuffer, dims) == 8);
static_assert(offsetof(CallBuffer, allocation) == 24);
static_assert(offsetof(CallBuffer, offset) == 32);
static_assert(offsetof(CallBuffer, size_bytes) == 40);

// Of a custom call: `data` has its bytes, or the records of a dictionary.
struct Attribute {
  Range name;
  int64_t kind;
  int64_t dtype;
  int64_t count;
  Range data;
};
static_assert(sizeof(Attribute) == 56);
static_assert(offsetof(Attribute, name) == 0);
static_assert(offsetof(Attribute, kind) == 16);
static_assert(offsetof(Attribute, dtype) == 24);
static_assert(offsetof(Attribute, count) == 32);
static_assert(offsetof(Attribute, data) == 40);

// A custom call: its text form, and the attributes that its handler is given.
struct CallSite {
  Range name;
  Range target;
  Range config;
  int64_t is_typed;
  Range operands;
  Range results;
  Range attributes;
};
static_assert(sizeof(CallSite) == 104);
static_assert(offsetof(CallSite, name) == 0);
static_assert(offsetof(CallSite, target) == 16);
static_assert(offsetof(CallSite, config) == 32);
static_assert(offsetof(CallSite, is_typed) == 48);
static_assert(offsetof(CallSite, operands) == 56);
static_assert(offsetof(CallSite, results) == 72);
static_assert(offsetof(CallSite, attributes) == 88);

// A text of a list.
struct Text {
  Range text;
};
static_assert(sizeof(Text) == 16);
static_assert(offsetof(Text, text) == 0);

// What a run needs to know; the first thing in its section. `runtime` is the version of the runtime's ABI.
struct Program {
  int64_t runtime;
  int64_t replicas;
  int64_t partitions;
  int64_t has_processor;
  Range triple;
  Range cpu;
  Range features;
  Range data_layout;
  Range name;
  Range entry;
  Range result_shape;
  Range allocations;
  Range parameters;
  Range results;
  Range objects;
  Range call_sites;
  Range infeeds;
  Range outfeeds;
  Range argument_shapes;
  Range argument_names;
  Range result_names;
};
static_assert(sizeof(Program) == 304);
static_assert(offsetof(Program, runtime) == 0);
static_assert(offsetof(Program, replicas) == 8);
static_assert(offsetof(Program, partitions) == 16);
static_assert(offsetof(Program, has_processor) == 24);
static_assert(offsetof(Program, triple) == 32);
static_assert(offsetof(Program, cpu) == 48);
static_assert(offsetof(Program, features) == 64);
static_assert(offsetof(Program, data_layout) == 80);
static_assert(offsetof(Program, name) == 96);
static_assert(offsetof(Program, entry) == 112);
static_assert(offsetof(Program, result_shape) == 128);
static_assert(offsetof(Program, allocations) == 144);
static_assert(offsetof(Program, parameters) == 160);
static_assert(offsetof(Program, results) == 176);
static_assert(offsetof(Program, objects) == 192);
static_assert(offsetof(Program, call_sites) == 208);
static_assert(offsetof(Program, infeeds) == 224);
static_assert(offsetof(Program, outfeeds) == 240);
static_assert(offsetof(Program, argument_shapes) == 256);
static_assert(offsetof(Program, argument_names) == 272);
static_assert(offsetof(Program, result_names) == 288);

// An argument or a result as callers see it: `leaf` is its number among the program's parameters or results, -1 for a token that is none; `type` that of PJRT; `dims` are those of what a device has.
struct Array {
  int64_t leaf;
  int64_t is_donated;
  int64_t type;
  int64_t memory_kind;
  Range dims;
  Range layout;
  Range sharding;
};
static_assert(sizeof(Array) == 80);
static_assert(offsetof(Array, leaf) == 0);
static_assert(offsetof(Array, is_donated) == 8);
static_assert(offsetof(Array, type) == 16);
static_assert(offsetof(Array, memory_kind) == 24);
static_assert(offsetof(Array, dims) == 32);
static_assert(offsetof(Array, layout) == 48);
static_assert(offsetof(Array, sharding) == 64);

// How a parameter or result of the entry stands on devices, as it was given.
struct ShardSpec {
  Range sharding;
  int64_t memory_kind;
};
static_assert(sizeof(ShardSpec) == 24);
static_assert(offsetof(ShardSpec, sharding) == 0);
static_assert(offsetof(ShardSpec, memory_kind) == 16);

// Where a program runs; the first thing in its section.
struct LaunchSpec {
  Range made_by;
  Range fingerprint;
  int64_t replicas;
  int64_t partitions;
  int64_t is_portable;
  Range devices;
  Range donated;
  Range arguments;
  Range results;
  Range argument_shard_specs;
  Range result_shard_specs;
  Range together_ms;
};
static_assert(sizeof(LaunchSpec) == 168);
static_assert(offsetof(LaunchSpec, made_by) == 0);
static_assert(offsetof(LaunchSpec, fingerprint) == 16);
static_assert(offsetof(LaunchSpec, replicas) == 32);
static_assert(offsetof(LaunchSpec, partitions) == 40);
static_assert(offsetof(LaunchSpec, is_portable) == 48);
static_assert(offsetof(LaunchSpec, devices) == 56);
static_assert(offsetof(LaunchSpec, donated) == 72);
static_assert(offsetof(LaunchSpec, arguments) == 88);
static_assert(offsetof(LaunchSpec, results) == 104);
static_assert(offsetof(LaunchSpec, argument_shard_specs) == 120);
static_assert(offsetof(LaunchSpec, result_shard_specs) == 136);
static_assert(offsetof(LaunchSpec, together_ms) == 152);

}  // namespace hloom::saved

#endif
