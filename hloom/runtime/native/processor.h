// What this processor can do.
#ifndef HLOOM_RUNTIME_PROCESSOR_H
#define HLOOM_RUNTIME_PROCESSOR_H

#include <string>
#include <string_view>

namespace hloom {

// As the first word of a triple: x86_64, aarch64.
std::string_view host_architecture();

// Which of these features (LLVM's names, a comma between two) this processor lacks, `architecture
// NAME (this is NAME)` where it is of another one, else nothing. What nobody here knows counts as
// lacking; what only says what is quick (prefer-, fast-, ...) does not.
std::string missing_features(std::string_view architecture, std::string_view features);

// `Target arch mismatch expected NAME got NAME` where that is what is missing, else nothing.
std::string arch_mismatch(std::string_view missing);

// Whether a program for which these features are missing runs with a warning instead of an error:
// where HLOOM_MISSING_FEATURES is `warn`, and the architecture is that of this processor.
bool is_tried_all_the_same(std::string_view missing);

}  // namespace hloom

#endif
