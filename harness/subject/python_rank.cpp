#include "harness/subject/python_rank.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/subject/backend_name.hpp"
#include "harness/subject/modules.hpp"

namespace plumbline::subject {

void become_python_rank(int count, char** arguments) {
  const std::span all(arguments, static_cast<std::size_t>(count));
  const auto option = std::ranges::find(all, std::string_view("--backend"));
  if (all.end() - option < 2 || module_of(*std::next(option)) != kC10dModule) return;
  const char* const chosen = std::getenv("PLUMBLINE_PYTHON");
  std::vector<std::string> command{chosen == nullptr || *chosen == '\0' ? "python3" : chosen,
                                   (data_folder() / "python" / "plumbline_c10d.py").string(),
                                   module_file("worker").string(), module_file(kC10dModule).string()};
  command.insert(command.end(), std::next(all.begin()), all.end());
  std::vector<char*> pointers;
  for (std::string& argument : command) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  // Memory of Python's own allocator is in no figure by which a leak is found.
  ::setenv("PYTHONMALLOC", "malloc", 0);
  ::execvp(pointers.front(), pointers.data());
  ::setenv("PLUMBLINE_C10D_PROBLEM", fmt::format("{}: {}", command.front(), std::strerror(errno)).c_str(), 1);
}

}  // namespace plumbline::subject
