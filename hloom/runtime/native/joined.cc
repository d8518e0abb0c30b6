// One copy of what every message does.
#include "joined.h"

std::string hloom::joined(std::initializer_list<std::string_view> words) {
  std::string all;
  for (std::string_view each : words) all.append(each);
  return all;
}
