// harness/subject/job/scratch_test.hpp: what the tests of processes share.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include "reference/support/temporary_folder.hpp"

namespace plumbline::subject {

/// The text of a file, once it has a whole line; empty after ten seconds.
inline std::string text_of(const std::filesystem::path& file) {
  for (int tries = 0; tries < 1000; ++tries, std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
    std::ifstream stream(file);
    std::stringstream text;
    text << stream.rdbuf();
    if (text.str().ends_with('\n')) return text.str();
  }
  return "";
}
/// A process id that a script wrote.
inline pid_t pid_in(const std::filesystem::path& file) {
  const std::string text = text_of(file);
  return text.empty() ? 0 : static_cast<pid_t>(std::stol(text));
}

/// Whether a process still does something; one that only waits to be reaped does not.
inline bool lives(pid_t pid) {
  std::string stat;
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::getline(file, stat);
  return !stat.empty() && stat.at(stat.rfind(')') + 2) != 'Z';
}
inline bool lives_for_long(pid_t pid) {
  for (int tries = 0; tries < 500 && lives(pid); ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return lives(pid);
}

}  // namespace plumbline::subject
