#include "harness/worker/worker.hpp"

#include <algorithm>
#include <csignal>
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

#include "harness/device/devices.hpp"
#include "harness/device/staged.hpp"
#include "harness/launch/control.hpp"
#include "harness/launch/driver.hpp"
#include "harness/launch/flight.hpp"
#include "harness/launch/group.hpp"
#include "harness/launch/process.hpp"
#include "harness/launch/stacks.hpp"
#include "harness/modes/modes.hpp"
#include "harness/mutants/hollow.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/mutants/rewritten_adapter.hpp"
#include "harness/record/environment.hpp"
#include "harness/record/result.hpp"
#include "harness/subject/adapter/client.hpp"
#include "harness/subject/adapter/declared.hpp"
#include "harness/subject/job/job_program.hpp"
#include "harness/subject/modules.hpp"
#include "harness/subject/place.hpp"
#include "harness/subject/training_module.hpp"
#include "harness/suite/adapter_error.hpp"
#include "harness/suite/eligibility.hpp"
#include "harness/suite/job_error.hpp"
#include "harness/suite/machine_error.hpp"
#include "harness/suite/rank_ended.hpp"
#include "harness/suite/skipped.hpp"
#include "harness/worker/collector.hpp"
#include "harness/worker/crash.hpp"
#include "harness/worker/program_task.hpp"
#include "harness/worker/reported_job.hpp"
#include "harness/worker/subject_memory.hpp"
#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/record/write_failure.hpp"
#include "reference/training/training.hpp"

namespace plumbline::worker {

using nlohmann::json;
namespace fs = std::filesystem;
using record::Verdict;

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A library that is not the launcher's takes each process for a job of one.
std::unique_ptr<subject::Backend> open_whole(const std::string& name, const subject::BackendOptions& options) {
  auto backend = subject::open_backend(name, options);
  const auto place = subject::place_of_launcher();
  if (name == "mpi" && place && place->is_mpi_job && backend->size() != place->size)
    throw RuntimeFailure(fmt::format(
        "backend mpi: {} started {} processes ({}), and {} finds {}: it is not the library of that launcher",
        place->launcher, place->size, place->variables, backend->capabilities().version, backend->size()));
  return backend;
}

// What one rank's body sees.
class RankContext final : public suite::Context {
 public:
  struct Shared {
    const suite::Case& one;
    const comm::Capabilities& capabilities;
    suite::Adapter* adapter;
    suite::Job* job;
    std::uint64_t seed;
    std::string scratch;
    std::string device;
    std::shared_ptr<device::Runtime> runtime;  // of a check on the device
    std::function<comm::Device(int rank)> device_of;
    std::function<void(int rank, const std::string&)> progress;
    std::function<void(int rank)> end_process;  // returns where the rank is to end by an exception
    std::string why_no_rank_ends;
  };
  RankContext(const Shared& shared, int rank, comm::Communicator* world) : shared_(shared), rank_(rank), world_(world) {
    if (shared.runtime != nullptr) seat_ = {shared.runtime, shared.device_of(rank)};
  }

  comm::Communicator& world() override {
    if (world_ == nullptr)
      throw StateError(fmt::format("{}: only a backend check has a communicator", shared_.one.id()));
    return *world_;
  }
  suite::Adapter& adapter() override {
    if (shared_.adapter == nullptr)
      throw StateError(fmt::format("{}: only an adapter check has an adapter", shared_.one.id()));
    return *shared_.adapter;
  }
  suite::Job& job() override {
    if (shared_.job == nullptr) throw StateError(fmt::format("{}: only a job check has a job", shared_.one.id()));
    return *shared_.job;
  }
  training::Training& training() override { return subject::training_module(); }
  training::Training& oracle() override { return subject::clean_training_module(); }
  [[nodiscard]] const suite::Parameters& parameters() const override { return shared_.one.parameters; }
  [[nodiscard]] std::uint64_t seed() const override { return shared_.seed; }
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return shared_.capabilities; }
  [[nodiscard]] const std::string& scratch() const override { return shared_.scratch; }
  [[nodiscard]] std::string device() const override { return shared_.device; }
  const suite::DeviceSeat& device_seat() override {
    if (seat_.runtime == nullptr)
      throw StateError(fmt::format("{}: only a check on a device has one", shared_.one.id()));
    return seat_;
  }
  void progress(const std::string& what) override { shared_.progress(rank_, what); }
  void end_rank() override {
    shared_.end_process(rank_);
    Context::end_rank();
  }
  [[nodiscard]] std::string why_no_rank_ends() const override { return shared_.why_no_rank_ends; }

 private:
  const Shared& shared_;
  int rank_;
  comm::Communicator* world_;
  suite::DeviceSeat seat_;
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
    const record::HostFacts host = record::host_facts();
    driver_ = std::make_unique<launch::ControlClient>(endpoint, token,
                                                      json{{"group", group == nullptr ? "" : group},
                                                           {"pid", ::getpid()},
                                                           {"host", record::host_identity(host)},
                                                           {"host_name", host.name}});
    ::unsetenv(launch::kTokenVariable);  // no business of a subject's
    if (const int status = open(); status != 0) return status;
    for (;;) {
      const json command = driver_->next([this] { return host_->progress(); });
      const std::string type = command.at("type");
      if (type == "quit") return 0;
      if (type == "run") run_case(command);
      if (type == "task") run_task(command);
    }
  }

 private:
  // Returns the exit status of a rank that cannot start; 0: it can.
  int open() {
    try {
      choose_mutant(options_.mutant);
      host_ = options_.backend.empty()      ? make_single_host()
              : options_.backend == "local" ? make_local_host(open_devices())
                                            : make_process_host(open_whole(options_.backend, options_.backend_options));
      if (const auto own = host_->own_device(); own.runtime != nullptr) runtime_ = own.runtime;
      // A backend of the host's memory alone: what is trained on a device goes to it by way of the host.
      if (!options_.backend.empty() && options_.backend != "local" && runtime_ == nullptr) (void)open_devices();
      if (!options_.adapter.empty()) adapter_ = subject::open_adapter(options_.adapter);
      if (!options_.job.empty()) {
        subject::JobOptions job{.command = options_.job,
                                .launches_ranks = options_.job_launches_ranks,
                                .serves_ranks = options_.job_serves_ranks,
                                .stacks = launch::stacks_of,
                                .asking = [this] { asking_(); }};
        job_ = std::make_unique<ReportedJob>(std::make_unique<subject::JobProgram>(std::move(job)),
                                             [this] { return change<mutants::ChangeRecord>(); });
      }
    } catch (const Error& error) {
      const bool usage =
          dynamic_cast<const InvalidArgument*>(&error) != nullptr || dynamic_cast<const NotFound*>(&error) != nullptr;
      const int status = usage ? 2 : 3;
      driver_->end_with(status);
      driver_->send({{"type", "cannot_start"}, {"usage", usage}, {"message", failure("", error.what()).message}});
      return status;
    }
    runner_ = std::make_unique<CaseRunner>();
    std::map<std::string, std::string> environment = host_->environment();
    if (runtime_ != nullptr) environment.merge(runtime_->environment());
    json ready{{"type", "ready"},
               {"environment", environment},
               {"capabilities", suite::description_of(host_->capabilities())}};
    if (!device_missing_.empty()) ready["device_missing"] = device_missing_;
    ready["rank"] = 0;
    host_->run(1, std::chrono::seconds(1), [&](Seat& seat) { ready["rank"] = seat.rank(); });
    if (adapter_ != nullptr) ready.update(adapter_->claims());
    driver_->send(ready);
    return 0;
  }

  // Opens the run's devices. Where that fails, what needs them is told why; the rest can run.
  comm::Device::Kind open_devices() {
    const auto [kind, index] = comm::DeviceChoice::parse(options_.device);
    if (kind == comm::Device::Kind::cpu) return kind;
    try {
      runtime_ = harness::open_runtime(kind);
      if (index >= 0) (void)runtime_->describe(index);  // refuses one that there is not
      return kind;
    } catch (const RuntimeFailure& error) {
      device_missing_ = error.what();
      return comm::Device::Kind::cpu;
    }
  }

  // Emulated ones are fresh: what another run has left in them, an error in a default stream or devices that it
  // connected, is none of this one's. A backend's own stay as they are.
  void open_devices_of_run(comm::Device::Kind kind) {
    if (host_->own_device().runtime == nullptr) runtime_ = harness::open_runtime(kind);
  }
  // The devices on whose memory calls are made from now on; none for cpu.
  std::shared_ptr<device::Runtime> serve_devices(const std::string& device) {
    host_->serve_devices(nullptr);
    if (device == "cpu") return nullptr;
    open_devices_of_run(comm::DeviceChoice::parse(device).kind);
    host_->serve_devices(device::make_calls(wrapped(runtime_)));
    return runtime_;
  }
  // The same for ranks that train. What LibTorch has on a device goes through the host's memory where the backend takes
  // no other.
  std::shared_ptr<device::Runtime> train_on(const std::string& device) {
    if (device == "cpu") return serve_devices(device);
    const comm::Device::Kind kind = comm::DeviceChoice::parse(device).kind;
    const bool is_taken = std::ranges::count(host_->capabilities().devices, kind) > 0;
    auto served = serve_devices(is_taken ? device : "cpu");
    if (!is_taken && runtime_ != nullptr) open_devices_of_run(kind);  // else who trains says what is missing
    subject::training_module().use_devices(wrapped(runtime_));
    return served;
  }
  [[nodiscard]] comm::Device device_of(const std::string& device, int rank) const {
    const auto own = host_->own_device();
    return own.runtime != nullptr ? own.device : comm::DeviceChoice::parse(device).of_rank(rank, runtime_->count());
  }
  // As the mutant makes it, if there is one, and it is of that kind.
  [[nodiscard]] std::shared_ptr<device::Runtime> wrapped(const std::shared_ptr<device::Runtime>& runtime) const {
    const auto* const wrap = change<mutants::WrapRuntime>();
    return wrap == nullptr || runtime == nullptr ? runtime : (*wrap)(runtime);
  }

  // Breaks what comes next in one way, or, without a name, in none.
  void choose_mutant(const std::string& name) {
    mutant_ = name.empty() ? nullptr : &mutants::find_mutant(suite_, name, options_.door());
    mutants::choose_woven(mutant_);
  }

  // What the mutant does, if there is one, and it is of that kind.
  template <class Change>
  [[nodiscard]] const Change* change() const {
    return mutant_ == nullptr ? nullptr : std::get_if<Change>(&mutant_->change);
  }

  void run_case(const json& command) {
    const suite::Case& one = suite_.cases().at(command.at("case").get<std::size_t>());
    const int world = command.at("world");
    const std::uint64_t run = command.at("run");
    choose_mutant(command.value("mutant", options_.mutant));
    prepare(world);
    const CaseFolder scratch(command.at("scratch").get<std::string>(), scratch_);
    std::optional<mutants::RewrittenAdapter> rewritten;
    suite::Adapter* adapter = adapter_.get();
    if (const auto* rewrite = change<mutants::RewriteAnswer>()) adapter = &rewritten.emplace(*adapter_, *rewrite);
    if (const auto* make = change<mutants::MakeRewrite>())
      adapter = &rewritten.emplace(*adapter_, (*make)(*adapter_, command.at("seed").get<std::uint64_t>()));
    std::optional<mutants::EditedAdapter> edited;
    if (change<suite::Edits>() != nullptr && adapter != nullptr) adapter = &edited.emplace(*adapter);
    std::optional<subject::DeclaredAdapter> declared;
    if (adapter != nullptr) adapter = &declared.emplace(*adapter, one);
    asked_ = declared ? &*declared : nullptr;
    const std::string device = command.value("device", "cpu");
    const std::string served = suite::uses_device_memory(*one.check, device) ? device : "cpu";
    const std::shared_ptr<device::Runtime> runtime =
        one.check->modules.empty() ? serve_devices(served) : train_on(served);
    const RankContext::Shared shared{
        .one = one,
        .capabilities = host_->capabilities(),
        .adapter = adapter,
        .job = job_.get(),
        .seed = command.at("seed"),
        .scratch = scratch.path(),
        .device = device,
        .runtime = one.check->on_device ? wrapped(runtime) : nullptr,
        .device_of = [&](int rank) { return device_of(device, rank); },
        .progress =
            [&](int rank, const std::string& what) {
              give_time(command);
              driver_->send({{"type", "progress"}, {"run", run}, {"rank", rank}, {"what", what}});
            },
        .end_process = [&](int rank) { end_process(run, rank); },
        .why_no_rank_ends = why_no_rank_ends()};
    asking_ = [this, run] {
      driver_->send({{"type", "progress"}, {"run", run}, {"rank", 0}, {"what", "asking ranks where they stand"}});
    };
    is_first_ = command.value("first", false);
    give_time(command);
    const suite::ExecutionMode mode = suite::ExecutionMode::parse(command.value("arm", "plain"));
    const auto under_arm = [&](std::unique_ptr<comm::Communicator> inner) {
      try {
        if (runtime != nullptr && !one.check->on_device && one.check->modules.empty()) {
          const comm::Device here = device_of(device, inner->rank());
          inner = harness::staged_on(runtime, here, std::move(inner));
        }
        return modes::under(mode, std::move(inner), scratch.path(), own_limit(command));
      } catch (const RuntimeFailure& error) {
        throw suite::MachineFailure(error.what());
      }
    };
    const auto body = [&](int rank, comm::Communicator* communicator) {
      RankContext context(shared, rank, communicator);
      one.check->body(context);
      if (declared) declared->expect_all_asked();
    };
    const std::uint64_t deviations = mutants::hollow_deviations();
    const auto strays = runner_->run([&] { run_ranks(command, under_arm, body); });
    for (const record::Failure& stray : strays) driver_->send({{"type", "stray"}, {"run", run}, {"failure", stray}});
    if (const std::uint64_t more = mutants::hollow_deviations() - deviations; more > 0)
      driver_->send({{"type", "output"}, {"run", run}, {"rank", 0}, {"value", {{"deviations", more}}}});
    asked_ = nullptr;
    driver_->send({{"type", "idle"}, {"run", run}});
  }

  // A launcher that finds one of its ranks dead ends the others.
  [[nodiscard]] std::string why_no_rank_ends() const {
    if (!host_->is_one_rank() || std::getenv(launch::kRanksVariable) != nullptr) return {};
    return "the launcher of the ranks ends all of them when one is killed";
  }

  // Returns where ranks are threads, and where an assertion has failed: then that is reported.
  void end_process(std::uint64_t run, int rank) {
    if (!host_->is_one_rank() || !collector_->failures().empty()) return;
    const record::RankResult result{.rank = rank, .verdict = Verdict::pass};
    driver_->send({{"type", "rank"}, {"run", run}, {"result", result}});
    driver_->send({{"type", "ends"}, {"run", run}});
    ::kill(::getpid(), SIGKILL);
  }

  // We give up a program before the driver gives up us: we can say what was asked, and what the program wrote last.
  void give_time(const json& command) {
    constexpr double part = 0.8;
    const std::chrono::duration<double> limit(part * command.at("limit").get<double>());
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::milliseconds>(limit);
    if (adapter_ != nullptr) adapter_->answer_by(deadline);
    if (job_ != nullptr) job_->end_by(deadline);
  }

  // Those of the suite, and the one that needs nothing of it.
  [[nodiscard]] const Task* task_named(const std::string& name) const {
    static const Task program = program_task;
    if (const auto found = tasks_.find(name); found != tasks_.end()) return &found->second;
    return name == "program" ? &program : nullptr;
  }

  void run_task(const json& command) {
    const std::uint64_t run = command.at("run");
    const Task* task = task_named(command.at("name"));
    prepare(command.at("world"));
    const std::string device = command.value("device", "cpu");
    const std::shared_ptr<device::Runtime> runtime =
        command.value("trains", false) ? train_on(device) : serve_devices(device);
    // Components agree on things by calls on the host's memory, also over a backend that takes none.
    const auto with_host_memory = [&](std::unique_ptr<comm::Communicator> backend) {
      auto inner = naming_memory(std::move(backend));
      if (runtime == nullptr || std::ranges::count(inner->capabilities().devices, comm::Device::Kind::cpu) > 0)
        return inner;
      const comm::Device here = device_of(device, inner->rank());
      return harness::staged_on(runtime, here, std::move(inner), harness::StagedStream::callers);
    };
    run_ranks(command, with_host_memory, [&](int rank, comm::Communicator* communicator) {
      if (task == nullptr) throw NotFound("no such task");
      const auto output = [&](const json& value) {
        driver_->send({{"type", "output"}, {"run", run}, {"rank", rank}, {"value", value}});
      };
      TaskRank seat{*communicator, command.at("arguments"), output};
      if (runtime != nullptr)
        seat.place = device::MemorySpace({.runtime = wrapped(runtime)}, device_of(device, rank).index);
      (*task)(seat);
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

  // Of a wait that is given none. It may take as long as a case that reports progress: who is missing is the watchdog's
  // to say.
  static std::chrono::nanoseconds own_limit(const json& command) {
    const std::chrono::duration<double> limit(command.at("limit").get<double>() * launch::kHardLimitFactor);
    return std::chrono::duration_cast<std::chrono::nanoseconds>(limit);
  }

  using Wrap = std::function<std::unique_ptr<comm::Communicator>(std::unique_ptr<comm::Communicator>)>;
  using Body = std::function<void(int rank, comm::Communicator*)>;

  // `wrap` goes directly around the backend's communicator.
  void run_ranks(const json& command, const Wrap& wrap, const Body& body) {
    const std::uint64_t run = command.at("run");
    host_->run(command.at("world"), own_limit(command), [&](Seat& seat) {
      const record::RankResult result = run_rank(seat, wrap, body);
      driver_->send({{"type", "rank"}, {"run", run}, {"result", result}});
    });
  }

  // The world as the body meets it: an arm around the backend, a mutant around that, and the recorder around all.
  std::unique_ptr<comm::Communicator> open_world(Seat& seat, const Wrap& wrap, launch::FlightRing& flight) {
    std::unique_ptr<comm::Communicator> world = seat.open();
    if (world == nullptr) return nullptr;
    world = wrap(std::move(world));
    if (const auto* broken = change<mutants::Wrap>()) world = (*broken)(std::move(world));
    if (options_.flight) world = launch::record_flight(std::move(world), flight);
    return world;
  }

  // Runs the body; how it ended is in `result`, and what assertions said in the collector.
  void run_body(Seat& seat, const std::function<void()>& body, RankCollector& collector, record::RankResult& result) {
    const auto ends = [&](Verdict verdict, const std::exception& error) {
      result.verdict = verdict;
      result.failures.push_back(failure("", error.what()));
    };
    try {
      body();
    } catch (const testing::AssertionException&) {
      // the collector has it
    } catch (const suite::RankEnded&) {
      // as the check wants it to
    } catch (const suite::UndeclaredQuestion& question) {
      result.verdict = Verdict::error;  // whatever else there was
      result.failures = {failure("", question.what)};
      return;
    } catch (const suite::UnclaimedQuestion& question) {
      result.verdict = Verdict::skip;
      if (collector.failures().empty()) result.failures.push_back(failure("", question.what));
    } catch (const suite::Skipped& skipped) {
      result.verdict = Verdict::skip;
      if (collector.failures().empty()) result.failures.push_back(failure("", skipped.what));
    } catch (const suite::UnaskedQuestion& question) {
      result.verdict = Verdict::missing;
      if (collector.failures().empty()) result.failures.push_back(failure("", question.what));
    } catch (const Unsupported& error) {
      ends(Verdict::refuse, error);  // a legal case
      seat.abort(fmt::format("rank {} was refused: {}", seat.rank(), result.failures.back().message));
    } catch (const suite::JobUnsupported& error) {
      ends(Verdict::skip, error);
    } catch (const suite::JobAbsent& error) {
      if (is_first_)
        driver_->send({{"type", "cannot_start"}, {"usage", error.is_misnamed()}, {"message", error.what()}});
      ends(Verdict::crash, error);
    } catch (const suite::JobCrashed& error) {
      ends(Verdict::crash, error);
    } catch (const suite::JobHung& error) {
      ends(Verdict::hang, error);
    } catch (const suite::MachineFailure& error) {
      ends(Verdict::error, error);
      seat.abort(fmt::format("rank {} lacks what the machine denies: {}", seat.rank(), error.what()));
    } catch (const job::WriteFailure& error) {
      ends(Verdict::error, error);
      seat.abort(fmt::format("rank {} cannot write: {}", seat.rank(), error.what()));
    } catch (const comm::PeerFailed& error) {
      // A consequence, unless nobody else failed: the driver, who knows all ranks, decides.
      ends(Verdict::aborted, error);
    } catch (const suite::AnswerInAnotherForm& error) {  // is wrong, whatever the check would have made of it
      collector.add(failure("", error.what()));
    } catch (const std::exception& error) {
      collector.add(uncaught(error.what()));
    } catch (...) {
      collector.add(uncaught(std::nullopt));
    }
    if (collector.failures().empty()) return;
    result.verdict = Verdict::fail;
    result.failures.insert(result.failures.begin(), collector.failures().begin(), collector.failures().end());
    result.violated = collector.violated();
    seat.abort(fmt::format("rank {} failed: {}", seat.rank(), collector.failures().front().message));
  }

  // An adapter whose program came to its end has no other verdict, whatever the check made of the error that it got.
  void note_end_of_adapter(record::RankResult& result) {
    auto* const client = dynamic_cast<subject::AdapterClient*>(adapter_.get());
    const auto end = client == nullptr ? std::nullopt : client->take_end();
    if (!end || result.verdict == Verdict::error) return;  // a fault of the suite is not the subject's
    result.verdict = end->hung ? Verdict::hang : Verdict::crash;
    std::erase_if(result.failures, [&](const record::Failure& one) { return one.uncaught; });
    result.failures.insert(result.failures.begin(), failure("", end->why));
    result.violated.clear();
  }

  // What a check of an adapter finds is of the question asked last, unless it shows one itself.
  void note_question(record::Failure& one) const {
    if (asked_ == nullptr || asked_->last_question().empty() || one.uncaught) return;
    const std::string operation = asked_->last_question().substr(0, asked_->last_question().find(' '));
    if (one.message.find("; asked: ") == std::string::npos && one.message.find(operation + " {") == std::string::npos)
      one.message += "; asked last: " + asked_->last_question();
  }

  record::RankResult run_rank(Seat& seat, const Wrap& wrap, const Body& body) {
    const auto begin = std::chrono::steady_clock::now();
    record::RankResult result{.rank = seat.rank(), .verdict = Verdict::pass};
    RankCollector collector([this](record::Failure& found) { note_question(found); });
    if (host_->is_one_rank()) collector_ = &collector;
    launch::FlightRing* flight = nullptr;
    try {
      flight = &ring(seat.rank());
    } catch (const std::exception& error) {
      result.verdict = Verdict::error;  // no fault of the subject's
      result.failures.push_back(failure("", error.what()));
      seat.abort(error.what());
      return result;
    }
    flight->clear();
    const CrashNote note(*flight, seat.rank());
    std::unique_ptr<comm::Communicator> world;
    const auto run = [&] {
      world = open_world(seat, wrap, *flight);
      body(seat.rank(), world.get());
    };
    run_body(seat, run, collector, result);
    note_end_of_adapter(result);
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
  std::shared_ptr<device::Runtime> runtime_;  // of the run's device, where there is one
  std::string device_missing_;                // why there is none
  std::unique_ptr<suite::Adapter> adapter_;
  const subject::DeclaredAdapter* asked_ = nullptr;  // by the case under way
  std::unique_ptr<suite::Job> job_;
  std::function<void()> asking_ = [] {};      // tells the driver that hung ranks of the job are being asked
  const RankCollector* collector_ = nullptr;  // of a rank that is this process
  bool is_first_ = false;                     // nothing of the subject has run before this case
  const mutants::Mutant* mutant_ = nullptr;
  std::unique_ptr<CaseRunner> runner_;
  std::mutex rings_mutex_;
  std::vector<std::unique_ptr<launch::FlightRing>> rings_;
};

// What the subject prints goes to a file of this process, where the driver finds its tail. Hosts may share the folder.
void redirect_output(const fs::path& scratch) {
  const fs::path file =
      scratch / fmt::format("output-{}-{}.log", record::host_identity(record::host_facts()), ::getpid());
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
  // There, what the subject prints goes where its launcher puts it.
  if (scratch != nullptr && !own) redirect_output(folder);
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
  app.add_option("--job", options.job);
  app.add_flag("--job-launches-ranks", options.job_launches_ranks);
  app.add_flag("--job-serves-ranks", options.job_serves_ranks);
  app.add_option("--device", options.device);
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
