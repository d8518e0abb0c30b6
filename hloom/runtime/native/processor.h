// What this processor can do.
#ifndef HLOOM_RUNTIME_PROCESSOR_H
#define HLOOM_RUNTIME_PROCESSOR_H

#include <string>
#include <string_view>

namespace hloom {

// As the first word of a triple: x86_64, aarch64.
std::string_view host_architecture();

// Which of these features (LLVM's names, a comma between two) this processor lacks, `architecture
// NAME` where it is of another one, else nothing. What nobody here knows counts as lacking.
std::string missing_features(std::string_view architecture, std::string_view features);

}  // namespace hloom

#endif
