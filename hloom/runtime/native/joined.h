// Words of messages, one behind the other. A sum of strings is code for each of its signs.
#ifndef HLOOM_RUNTIME_JOINED_H
#define HLOOM_RUNTIME_JOINED_H

#include <initializer_list>
#include <string>
#include <string_view>

namespace hloom {

std::string joined(std::initializer_list<std::string_view> words);

}  // namespace hloom

#endif
