#include "harness/subject/c10d/python_side.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "harness/subject/c10d/connect.hpp"
#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::c10d_backend {
namespace {

constexpr std::size_t kAnswer = 16384;  // bytes

std::atomic<AskPython*> ask = nullptr;

std::string one_line(std::string words) {
  std::ranges::replace_if(words, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return words;
}

}  // namespace

void connect(AskPython* function) { ask = function; }

nlohmann::json ask_python(const nlohmann::json& request) {
  if (ask == nullptr) {
    const char* const problem = std::getenv(kProblemVariable);
    throw NotAvailable(std::string("backend c10d: ") +
                       (problem == nullptr ? "its ranks are started by plumbline alone"
                                           : one_line(problem) + "; pip install torch==" PLUMBLINE_TORCH_VERSION
                                                                 ", for which it was built, or set PLUMBLINE_PYTHON"));
  }
  std::vector<char> answer(kAnswer);
  ask.load()(request.dump().c_str(), answer.data(), answer.size());
  nlohmann::json parsed = nlohmann::json::parse(answer.data());
  if (const auto error = parsed.find("error"); error != parsed.end())
    throw RuntimeFailure(one_line(error->get<std::string>()));
  return parsed;
}

}  // namespace plumbline::subject::c10d_backend
