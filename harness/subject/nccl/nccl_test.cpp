// nccl_test RANKS [options of GoogleTest]: runs the tests in so many processes, as the driver would start them.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "harness/launch/process.hpp"
#include "harness/subject/nccl/job_test.hpp"

namespace plumbline::subject::nccl {
namespace {
std::shared_ptr<device::Runtime> the_devices;
std::shared_ptr<Job> the_job;
}  // namespace

const std::shared_ptr<device::Runtime>& devices() { return the_devices; }
const std::shared_ptr<Job>& job() { return the_job; }

namespace {

int run_rank() {
  const Place place = place_of_worker("nccl", Meeting::memory);
  the_devices = device::make_emulated({.devices = place.size});
  the_job =
      std::make_shared<Job>(Options::parse({{"library", NCCL_DOUBLE}, {"runtime", "emulated"}}), place, the_devices);
  const int status = RUN_ALL_TESTS();
  the_job.reset();
  the_devices.reset();
  return status;
}

constexpr const char* kGood = "exited with status 0";

int run_all(int ranks, std::vector<std::string> arguments) {
  const launch::ScratchFolder scratch;
  std::vector<std::unique_ptr<launch::Child>> children;
  const auto log = [&](int rank) { return scratch.path() / ("rank" + std::to_string(rank)); };
  for (int rank = 0; rank < ranks; ++rank)
    children.push_back(std::make_unique<launch::Child>(
        launch::Child::Options{.arguments = arguments,
                               .environment = {{"PLUMBLINE_RANK", std::to_string(rank)},
                                               {"PLUMBLINE_RANKS", std::to_string(ranks)},
                                               {"PLUMBLINE_SCRATCH", scratch.path().string()}},
                               .output = log(rank),
                               .death_signal = SIGKILL}));
  // Ranks that wait for one that is gone would wait for ever.
  const auto has_ended = [](const auto& child) { return child->ended().has_value(); };
  const auto is_bad = [](const auto& child) { return child->ended().value_or(kGood) != kGood; };
  while (!std::ranges::all_of(children, has_ended)) {
    if (std::ranges::any_of(children, is_bad))
      for (const auto& child : children) child->signal(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string end = *children[static_cast<std::size_t>(rank)]->ended();
    if (end == kGood && rank > 0) continue;
    std::ifstream file(log(rank));
    std::cout << "rank " << rank << " " << end << ":\n" << file.rdbuf() << std::flush;
  }
  return std::ranges::any_of(children, is_bad) ? 1 : 0;
}

}  // namespace
}  // namespace plumbline::subject::nccl

int main(int argc, char** argv) {
  using namespace plumbline::subject::nccl;
  if (std::getenv("PLUMBLINE_RANK") != nullptr) {
    testing::InitGoogleTest(&argc, argv);
    return run_rank();
  }
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 0;
  if (ranks < 1) {
    std::cerr << "nccl_test: the number of ranks comes first\n";
    return 2;
  }
  std::vector<std::string> arguments{std::filesystem::canonical("/proc/self/exe").string()};
  arguments.insert(arguments.end(), argv + 2, argv + argc);
  return run_all(ranks, arguments);
}
