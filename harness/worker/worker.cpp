#include "harness/worker/worker.hpp"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <optional>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/launch/control.hpp"
#include "harness/launch/driver.hpp"
#include "harness/launch/flight.hpp"
#include "harness/launch/process.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/record/result.hpp"
#include "harness/subject/adapter/client.hpp"
#include "harness/subject/modules.hpp"
#include "harness/subject/training_module.hpp"
#include "harness/worker/collector.hpp"
#include "harness/worker/crash.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::worker {

using nlohmann::json;
namespace fs = std::filesystem;
using record::Verdict;

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// What one rank's body sees.
class RankContext final : public suite::Context {
 public:
  struct Shared {
    const suite::Case& one;
    const comm::Capabilities& capabilities;
    suite::Adapter* adapter;
    std::uint64_t seed;
    std::string scratch;
    std::string device;
    std::function<void(int rank, const std::string&)> progress;
  };
  RankContext(const Shared& shared, int rank, comm::Communicator* world)
      : shared_(shared), rank_(rank), world_(world) {}

  comm::Communicator& world() override {
    if (world_ == nullptr) throw StateError(fmt::format("{}: an adapter check has no communicator", shared_.one.id()));
    return *world_;
  }
  suite::Adapter& adapter() override {
    if (shared_.adapter == nullptr)
      throw StateError(fmt::format("{}: a backend check has no adapter", shared_.one.id()));
    return *shared_.adapter;
  }
  training::Training& training() override { return subject::training_module(); }
  [[nodiscard]] const suite::Parameters& parameters() const override { return shared_.one.parameters; }
  [[nodiscard]] std::uint64_t seed() const override { return shared_.seed; }
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return shared_.capabilities; }
  [[nodiscard]] const std::string& scratch() const override { return shared_.scratch; }
  [[nodiscard]] std::string device() const override { return shared_.device; }
  void progress(const std::string& what) override { shared_.progress(rank_, what); }

 private:
  const Shared& shared_;
  int rank_;
  comm::Communicator* world_;
};

// The folder of a case: the one that the driver made, or on another host than the driver's one beside our rings.
class CaseFolder {
 public:
  CaseFolder(const fs::path& given, const fs::path& here) : path_(given) {
    if (fs::is_directory(given)) return;
    path_ = here / given.filename();
    fs::create_directory(path_);
    ours_ = true;
  }
  ~CaseFolder() {
    std::error_code error;
    if (ours_) fs::remove_all(path_, error);
  }
  CaseFolder(const CaseFolder&) = delete;
  CaseFolder& operator=(const CaseFolder&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  fs::path path_;
  bool ours_ = false;
};

class Worker {
 public:
  Worker(const suite::Suite& suite, const std::map<std::string, Task>& tasks, const Options& options, fs::path scratch)
      : suite_(suite), tasks_(tasks), options_(options), scratch_(std::move(scratch)) {}

  int run() {
    const char* endpoint = std::getenv(launch::kControlVariable);
    const char* token = std::getenv(launch::kTokenVariable);
    const char* group = std::getenv("PLUMBLINE_GROUP");
    if (endpoint == nullptr || token == nullptr)
      throw InvalidArgument("worker: PLUMBLINE_CONTROL and PLUMBLINE_TOKEN are not set; the driver starts workers");
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    driver_ = std::make_unique<launch::ControlClient>(
        endpoint, token, json{{"group", group == nullptr ? "" : group}, {"pid", ::getpid()}, {"host", host}});
    ::unsetenv(launch::kTokenVariable);  // no business of a subject's
    if (!open()) return 3;
    for (;;) {
      const json command = driver_->next();
      const std::string type = command.at("type");
      if (type == "quit") return 0;
      if (type == "run") run_case(command);
      if (type == "task") run_task(command);
    }
  }

 private:
  bool open() {
    try {
      if (!options_.mutant.empty()) mutant_ = &mutants::find_mutant(options_.mutant);
      host_ = options_.backend.empty() ? make_single_host()
              : options_.backend == "local"
                  ? make_local_host()
                  : make_process_host(subject::open_backend(options_.backend, options_.backend_options));
      if (!options_.adapter.empty()) adapter_ = subject::open_adapter(options_.adapter);
    } catch (const Error& error) {
      const bool usage =
          dynamic_cast<const InvalidArgument*>(&error) != nullptr || dynamic_cast<const NotFound*>(&error) != nullptr;
      driver_->send({{"type", "cannot_start"}, {"usage", usage}, {"message", failure("", error.what()).message}});
      return false;
    }
    runner_ = std::make_unique<CaseRunner>(static_cast<int>(suite_.cases().size()));
    json ready{
        {"type", "ready"}, {"environment", host_->environment()}, {"capabilities", words(host_->capabilities())}};
    ready["rank"] = 0;
    host_->run(1, std::chrono::seconds(1), [&](Seat& seat) { ready["rank"] = seat.rank(); });
    if (adapter_ != nullptr) ready["operations"] = adapter_->operations();
    driver_->send(ready);
    return true;
  }

  static json words(const comm::Capabilities& capabilities) {
    json claims = json::array();
    for (const comm::Capability claim : capabilities.claims) claims.push_back(name_of(claim));
    json dtypes = json::array();
    for (const comm::DType dtype : capabilities.dtypes) dtypes.push_back(name_of(dtype));
    return {{"backend", capabilities.backend},
            {"version", capabilities.version},
            {"claims", claims},
            {"dtypes", dtypes},
            {"rounds_each_half_addition", capabilities.rounds_each_half_addition},
            {"notes", capabilities.notes}};
  }

  void run_case(const json& command) {
    const suite::Case& one = suite_.cases().at(command.at("case").get<std::size_t>());
    const int world = command.at("world");
    const std::uint64_t run = command.at("run");
    prepare(world);
    const CaseFolder scratch(command.at("scratch").get<std::string>(), scratch_);
    const RankContext::Shared shared{
        .one = one,
        .capabilities = host_->capabilities(),
        .adapter = adapter_.get(),
        .seed = command.at("seed"),
        .scratch = scratch.path(),
        .device = command.value("device", "cpu"),
        .progress = [&](int rank, const std::string& what) {
          give_adapter_time(command);
          driver_->send({{"type", "progress"}, {"run", run}, {"rank", rank}, {"what", what}});
        }};
    give_adapter_time(command);
    const auto body = [&](int rank, comm::Communicator* communicator) {
      RankContext context(shared, rank, communicator);
      one.check->body(context);
    };
    const auto strays = runner_->run(one.number, [&] { run_ranks(command, body); });
    for (const record::Failure& stray : strays)
      driver_->send({{"type", "stray"}, {"run", run}, {"where", stray.where}, {"message", stray.message}});
    driver_->send({{"type", "idle"}, {"run", run}});
  }

  // The adapter's client gives up before the driver does: it can say what was asked, and what the adapter wrote last.
  void give_adapter_time(const json& command) {
    constexpr double part = 0.8;
    const std::chrono::duration<double> limit(part * command.at("limit").get<double>());
    if (adapter_ != nullptr)
      adapter_->answer_by(std::chrono::steady_clock::now() +
                          std::chrono::duration_cast<std::chrono::milliseconds>(limit));
  }

  void run_task(const json& command) {
    const std::uint64_t run = command.at("run");
    const auto task = tasks_.find(command.at("name").get<std::string>());
    prepare(command.at("world"));
    run_ranks(command, [&](int rank, comm::Communicator* communicator) {
      if (task == tasks_.end()) throw NotFound("no such task");
      TaskRank seat{*communicator, command.at("arguments"), [&](const json& value) {
                      driver_->send({{"type", "output"}, {"run", run}, {"rank", rank}, {"value", value}});
                    }};
      task->second(seat);
    });
    driver_->send({{"type", "idle"}, {"run", run}});
  }

  // A flight ring for each rank that may be ours.
  void prepare(int world) {
    while (static_cast<int>(rings_.size()) < world) rings_.emplace_back();
  }

  launch::FlightRing& ring(int rank) {
    const std::lock_guard hold(rings_mutex_);
    auto& ring = rings_[static_cast<std::size_t>(rank)];
    if (ring == nullptr) ring = std::make_unique<launch::FlightRing>(scratch_ / fmt::format("rank{}.flight", rank));
    return *ring;
  }

  void run_ranks(const json& command, const std::function<void(int, comm::Communicator*)>& body) {
    const std::uint64_t run = command.at("run");
    // A wait that is given no limit may take as long as a case that reports progress: who is missing is the watchdog's to say.
    const auto timeout = std::chrono::duration<double>(command.at("limit").get<double>() * launch::kHardLimitFactor);
    host_->run(command.at("world"), std::chrono::duration_cast<std::chrono::nanoseconds>(timeout), [&](Seat& seat) {
      const record::RankResult result = run_rank(seat, body);
      driver_->send({{"type", "rank"}, {"run", run}, {"result", result}});
    });
  }

  record::RankResult run_rank(Seat& seat, const std::function<void(int, comm::Communicator*)>& body) {
    const auto begin = std::chrono::steady_clock::now();
    record::RankResult result{.rank = seat.rank(), .verdict = Verdict::pass};
    RankCollector collector;
    std::unique_ptr<comm::Communicator> world;
    const auto fail = [&](const std::string& message) { collector.add(failure("", message)); };
    launch::FlightRing* flight = nullptr;
    try {
      flight = &ring(seat.rank());
    } catch (const std::exception& error) {
      result.verdict = Verdict::error;  // no fault of the subject's
      result.failures.push_back(failure("", error.what()));
      seat.abort(error.what());
      return result;
    }
    try {
      flight->clear();
      const CrashNote note(*flight, seat.rank());
      world = seat.open();
      if (world != nullptr && mutant_ != nullptr) world = mutant_->wrap(std::move(world));
      if (world != nullptr && options_.flight) world = launch::record_flight(std::move(world), *flight);
      body(seat.rank(), world.get());
    } catch (const testing::AssertionException&) {
      // the collector has it
    } catch (const Unsupported& error) {
      result.verdict = Verdict::refuse;  // a legal case
      result.failures.push_back(failure("", error.what()));
      seat.abort(fmt::format("rank {} was refused: {}", seat.rank(), result.failures.back().message));
    } catch (const comm::PeerFailed& error) {
      // A consequence, unless nobody else failed: the driver, who knows all ranks, decides.
      result.verdict = Verdict::aborted;
      result.failures.push_back(failure("", error.what()));
    } catch (const std::exception& error) {
      fail(fmt::format("uncaught exception: {}", error.what()));
    } catch (...) {
      fail("uncaught exception of an unknown type");
    }
    if (!collector.failures().empty()) {
      result.verdict = Verdict::fail;
      result.failures.insert(result.failures.begin(), collector.failures().begin(), collector.failures().end());
      seat.abort(fmt::format("rank {} failed: {}", seat.rank(), collector.failures().front().message));
    }
    world.reset();
    result.seconds = seconds_since(begin);
    return result;
  }

  const suite::Suite& suite_;
  const std::map<std::string, Task>& tasks_;
  const Options& options_;
  const fs::path scratch_;
  std::unique_ptr<launch::ControlClient> driver_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<suite::Adapter> adapter_;
  const mutants::Mutant* mutant_ = nullptr;
  std::unique_ptr<CaseRunner> runner_;
  std::mutex rings_mutex_;
  std::vector<std::unique_ptr<launch::FlightRing>> rings_;
};

// What the subject prints goes to a file of this process, where the driver finds its tail.
void redirect_output(const fs::path& scratch) {
  const fs::path file = scratch / fmt::format("output-{}.log", ::getpid());
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor < 0) return;
  ::dup2(descriptor, STDOUT_FILENO);
  ::dup2(descriptor, STDERR_FILENO);
  ::close(descriptor);
}

}  // namespace

int serve(const suite::Suite& suite, const std::map<std::string, Task>& tasks, const Options& options) {
  const char* scratch = std::getenv("PLUMBLINE_SCRATCH");
  fs::path folder = scratch == nullptr ? fs::temp_directory_path() : fs::path(scratch);
  // A job of the user's may have ranks on other hosts, where the driver's folder is not.
  std::optional<launch::ScratchFolder> own;
  if (!fs::is_directory(folder)) folder = own.emplace().path();
  if (scratch != nullptr) redirect_output(folder);
  install_crash_handlers();
  return Worker(suite, tasks, options, folder).run();
}

int main(int argc, char** argv, const suite::Suite& suite, const std::map<std::string, Task>& tasks) {
  Options options;
  std::vector<std::string> pairs;
  CLI::App app("Runs cases for a driver; started by plumbline itself.", "plumbline worker");
  app.add_option("--backend", options.backend);
  app.add_option("--backend-option", pairs);
  app.add_option("--adapter", options.adapter);
  app.add_option("--mutant", options.mutant);
  app.add_flag("!--no-flight", options.flight);
  try {
    app.parse(argc, argv);
    for (const std::string& pair : pairs)
      options.backend_options[pair.substr(0, pair.find('='))] = pair.substr(pair.find('=') + 1);
    return serve(suite, tasks, options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::cerr << "plumbline worker: " << error.what() << '\n';
    return 3;
  }
}

}  // namespace plumbline::worker
