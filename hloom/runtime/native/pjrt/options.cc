// Options of clients and topologies.
#include "client.h"

namespace hloom::pjrt {
namespace {

struct Known {
  const char* name;
  PJRT_NamedValue_Type type;
};

constexpr Known kKnown[] = {
    {"cpu_device_count", PJRT_NamedValue_kInt64},
    {"process_id", PJRT_NamedValue_kInt64},
    {"asynchronous", PJRT_NamedValue_kBool},
    {"max_inflight_computations", PJRT_NamedValue_kInt64},
    {"collectives", PJRT_NamedValue_kString},
    {"triple", PJRT_NamedValue_kString},
    {"cpu", PJRT_NamedValue_kString},
    {"features", PJRT_NamedValue_kString},
    {"topology", PJRT_NamedValue_kString},
    // What JAX says of the processes of a distributed program.
    {"node_id", PJRT_NamedValue_kInt64},
    {"num_nodes", PJRT_NamedValue_kInt64},
    {"partition_index", PJRT_NamedValue_kInt64},
};

constexpr const char* kInProcess = "in-process";

const char* type_name(PJRT_NamedValue_Type type) {
  switch (type) {
    case PJRT_NamedValue_kString:
      return "text";
    case PJRT_NamedValue_kInt64:
      return "a whole number";
    case PJRT_NamedValue_kInt64List:
      return "a list of whole numbers";
    case PJRT_NamedValue_kFloat:
      return "a fraction";
    case PJRT_NamedValue_kBool:
      return "true or false";
    default:
      return "of another type";
  }
}

PJRT_Error* wrong(const PJRT_NamedValue& given) {
  std::string name(given.name, given.name_size), all;
  for (const Known& known : kKnown) {
    if (name == known.name && given.type == known.type) return nullptr;
    if (name == known.name)
      return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                      "the option %s is %s, %s was given [option]", known.name,
                      type_name(known.type), type_name(given.type));
    all += (all.empty() ? "" : ", ") + std::string(known.name);
  }
  return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                  "clients and topologies have no option %s; there are %s [option]", name.c_str(),
                  all.c_str());
}

}  // namespace

const PJRT_NamedValue* option(const PJRT_NamedValue* options, size_t count, const char* name,
                              PJRT_NamedValue_Type type) {
  for (size_t k = 0; k < count; ++k)
    if (std::string(options[k].name, options[k].name_size) == name && options[k].type == type)
      return options + k;
  return nullptr;
}

PJRT_Error* wrong_option(const PJRT_NamedValue* options, size_t count) {
  for (size_t k = 0; k < count; ++k)
    if (PJRT_Error* error = wrong(options[k])) return error;
  if (auto* given = option(options, count, "collectives", PJRT_NamedValue_kString))
    if (std::string name(given->string_value, given->value_size); name != kInProcess)
      return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                      "collectives of the kind %s are not built in: those called %s meet in a "
                      "process and, through sockets, across processes [option]",
                      name.c_str(), kInProcess);
  if (auto* given = option(options, count, "num_nodes", PJRT_NamedValue_kInt64))
    if (given->int64_value < 1 || given->int64_value > 4096)
      return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                      "num_nodes is %lld; 1 to 4096 processes can be [option]",
                      static_cast<long long>(given->int64_value));
  return nullptr;
}

}  // namespace hloom::pjrt
