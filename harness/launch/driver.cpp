#include "harness/launch/driver.hpp"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <list>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "harness/launch/flight_compare.hpp"
#include "harness/launch/slow_calls.hpp"
#include "harness/launch/stacks.hpp"
#include "harness/run/ranks.hpp"
#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::launch {

using nlohmann::json;
using record::RankResult;
using record::Verdict;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr auto kGrace = 1s;       // for the other ranks, once one has failed
constexpr auto kTimeToDie = 2s;   // until the launcher has said how a rank ended
constexpr auto kSameDeath = 1ms;  // ranks that go within this of the first went by themselves
constexpr auto kTick = 50ms;

// SIGINT and SIGTERM as a descriptor, for as long as it lives.
class Interrupts {
 public:
  Interrupts() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &before_);
    descriptor_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Interrupts() {
    ::close(descriptor_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool arrived() const {
    signalfd_siginfo info;
    return ::read(descriptor_, &info, sizeof info) == static_cast<ssize_t>(sizeof info);
  }

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

// An assignment under way in a group.
struct Running {
  std::size_t assignment;
  std::uint64_t run;
  int world;
  Clock::time_point begun = Clock::now();
  Clock::time_point deadline;
  Clock::time_point hard_deadline;
  std::optional<Clock::time_point> grace;  // ends when a rank has failed and others have not reported
  std::optional<Clock::time_point> death;  // when a process went
  Clock::time_point told = begun;          // that it goes on
  std::string cut_off;                     // why the driver ended a worker's connection
  std::vector<std::optional<RankResult>> ranks;
  std::vector<record::Failure> strays;
  std::set<int> lost;         // ranks whose process went first, reported or not
  std::set<int> ended;        // ranks whose process goes as their check wants
  std::vector<int> reported;  // ranks, as they reported
  int idle = 0;               // processes that are through

  [[nodiscard]] bool all_reported() const {
    return std::ranges::all_of(ranks, [](const auto& rank) { return rank.has_value(); });
  }
  // By the time in which nobody listened.
  void postpone(Clock::duration deaf) {
    deadline += deaf;
    hard_deadline += deaf;
    if (grace) *grace += deaf;
    if (death) *death += deaf;
  }
};

// A place where one group at a time works.
struct Slot {
  std::unique_ptr<WorkerGroup> group;
  std::string group_isolation;
  bool spoiled = false;  // the group must not be used again
  std::unique_ptr<WorkerGroup> spare;
  std::string spare_isolation;
  std::optional<std::size_t> waiting;  // assignment that waits for the group to be ready
  std::optional<Running> running;
  int failed_starts = 0;
  bool told_of_start = false;  // that it takes long
};

// Whether prose that begins so is wrapped, and goes on in that line: other lines are of other ranks, or of tables.
bool goes_on(const std::string& prose, const std::string& line) {
  return std::isupper(static_cast<unsigned char>(prose.front())) && !prose.ends_with('.') && !prose.ends_with(':') &&
         !line.empty() && std::islower(static_cast<unsigned char>(line.front()));
}

// The sentence or line of a launcher's words that says most: they come in boxes, the cause first.
std::string telling_line(const std::string& words) {
  std::istringstream lines(words);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (found.empty()) {
      if (line.find("ORTE_ERROR_LOG") != std::string::npos) continue;  // of Open MPI, about its own words
      if (std::ranges::count_if(line, [](unsigned char c) { return std::isalpha(c); }) >= 3) found = line;
    } else if (goes_on(found, line)) {
      found += ' ' + line;
    } else {
      break;
    }
    if (const std::size_t end = found.find(".  "); end != std::string::npos) return found.substr(0, end + 1);
  }
  return found;
}

Options with_launcher(Options options) {
  GroupOptions& group = options.group;
  if (group.launcher != Launcher::program || !group.subject.has_processes()) return options;
  if (group.launcher_name.empty())
    group.program = find_launch_program();
  else
    group.program = find_launch_program(group.launcher_name);
  if (!group.program)
    throw subject::NotAvailable(fmt::format(
        "backend {}: no mpirun, mpiexec or srun of Open MPI, MPICH or Slurm is in PATH; install openmpi-bin or mpich",
        group.subject.backend));
  return options;
}

class Driver {
 public:
  Driver(const std::vector<Assignment>& assignments, const Options& options, const Observer& observer)
      : assignments_(assignments),
        options_(with_launcher(options)),
        observer_(observer),
        token_(random_token()),
        server_(options.control_address, token_, observer.log),
        slots_(static_cast<std::size_t>(std::max(1, options.jobs))) {
    if (observer.listening) {
      const auto folder = scratch_.path() / "g1";
      std::filesystem::create_directory(folder);
      observer.listening({server_.endpoint(), token_, "g1", folder.string()});
    }
    for (std::size_t index = 0; index < assignments.size(); ++index) pending_.push_back(index);
  }

  bool run() {
    while (!stopping_ && (!pending_.empty() || busy())) {
      if (options_.until && Clock::now() >= *options_.until) break;
      for (Slot& slot : slots_)
        while (!stopping_ && advance(slot)) {
        }
      poll();
      if (interrupts_.arrived()) {
        finish_all();
        return false;
      }
    }
    finish_all();
    return true;
  }

  ~Driver() { finish_all(); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

 private:
  // Whether somebody else started the ranks: there is one group, and no other can be had.
  [[nodiscard]] bool attached() const { return options_.group.launcher == Launcher::attached; }

  [[nodiscard]] bool has_processes() const { return options_.group.subject.has_processes(); }

  // A runtime in its own process goes on with calls, in memory that is somebody else's by then, and so does a device.
  // The ranks of `local` are threads, and end with their world.
  [[nodiscard]] bool calls_outlive_case(const Assignment& assignment) const {
    return has_processes() || assignment.command.value("device", "cpu").starts_with("cuda");
  }

  [[nodiscard]] bool busy() const {
    return std::ranges::any_of(slots_, [](const Slot& slot) { return slot.waiting || slot.running; });
  }

  [[nodiscard]] bool fits(const WorkerGroup& group, const std::string& isolation, const Assignment& assignment) const {
    if (attached()) return true;  // there is only this group
    return group.world() == assignment.world && isolation == assignment.isolation;
  }

  std::unique_ptr<WorkerGroup> start_group(const Assignment& assignment) {
    return std::make_unique<WorkerGroup>(options_.group, server_, token_, scratch_.path(), ++groups_, assignment.world);
  }

  void retire(std::unique_ptr<WorkerGroup>& group) {
    if (!group) return;
    group->end(server_);
    ending_.push_back(std::move(group));
  }

  // ---- from one assignment to the next ----

  // The next assignment for a slot: of the shape that its group has, else the first of a shape that no other slot works
  // on, which would cost two groups in place of one; else the first.
  std::optional<std::size_t> next_for(const Slot& slot) {
    if (observer_.wanted) std::erase_if(pending_, [this](std::size_t index) { return !observer_.wanted(index); });
    const auto fits_group_of = [this](const Slot& other, std::size_t index) {
      return other.group && !other.spoiled && fits(*other.group, other.group_isolation, assignments_[index]);
    };
    auto next = std::ranges::find_if(pending_, [&](std::size_t index) { return fits_group_of(slot, index); });
    if (next == pending_.end())
      next = std::ranges::find_if(pending_, [&](std::size_t index) {
        return std::ranges::none_of(slots_, [&](const Slot& other) { return fits_group_of(other, index); });
      });
    if (next == pending_.end()) next = pending_.begin();
    if (next == pending_.end()) return std::nullopt;
    const std::size_t index = *next;
    pending_.erase(next);
    return index;
  }

  // Takes the slot one step on, if there is one to take now.
  bool advance(Slot& slot) {
    if (slot.running) return watch(slot);
    if (!slot.waiting) slot.waiting = next_for(slot);
    if (!slot.waiting) return false;
    const Assignment& assignment = assignments_[*slot.waiting];
    if (attached() && slot.spoiled)
      throw RuntimeFailure("the ranks that you started are no longer usable; --resume with a new job runs the rest");
    if (slot.group && (slot.spoiled || !fits(*slot.group, slot.group_isolation, assignment))) retire(slot.group);
    if (!slot.group && slot.spare && fits(*slot.spare, slot.spare_isolation, assignment))
      slot.group = std::move(slot.spare);
    if (!slot.group) {
      retire(slot.spare);
      slot.group = start_group(assignment);
    }
    slot.group_isolation = assignment.isolation;
    slot.spoiled = false;
    if (slot.group->is_ready()) {
      hand_out(slot);
      return true;
    }
    return watch_start(slot);
  }

  bool watch_start(Slot& slot) {
    auto ended = slot.group->launcher_ended();
    if (ended && options_.group.program) ended = fmt::format("{} {}", options_.group.program.value().name(), *ended);
    const auto age = Clock::now() - slot.group->started();
    const bool late = age > options_.start_limit;
    if (!ended && slot.group->lost_one() && age > kTimeToDie) ended = "a worker ended before it was ready";
    if (!ended && !late && age > options_.remind && !std::exchange(slot.told_of_start, true))
      observer_.log(fmt::format("{} has not begun after {:.0f} s; it has {} s", options_.group.subject.describe(),
                                std::chrono::duration<double>(age).count(), options_.start_limit.count()));
    if (!ended && !late) return false;
    // The message of a worker that could not start may still be on its way.
    if (ended && age < 200ms) return false;
    const std::string why = ended ? *ended : fmt::format("not ready after {} s", options_.start_limit.count());
    const std::string words = slot.group->tail();
    const std::string cause = telling_line(words);
    const std::string reason =
        fmt::format("the worker group did not start: {}{}{}", why, cause.empty() ? "" : "; it says: ", cause);
    report(*std::exchange(slot.waiting, std::nullopt), {.verdict = Verdict::error, .reason = reason, .output = words});
    retire(slot.group);
    if (++slot.failed_starts >= 2 || groups_ == 1)
      throw RuntimeFailure(fmt::format("{}: {}", options_.group.subject.describe(), reason));
    return true;
  }

  void hand_out(Slot& slot) {
    const std::size_t index = *std::exchange(slot.waiting, std::nullopt);
    const Assignment& assignment = assignments_[index];
    slot.failed_starts = 0;
    if (observer_.before)
      if (const auto outcome = observer_.before(index, description_of(*slot.group))) return report(index, *outcome);
    Running running{.assignment = index, .run = ++runs_, .world = assignment.world};
    const auto limit = std::chrono::duration_cast<Clock::duration>(assignment.limit);
    running.deadline = running.begun + limit;
    running.hard_deadline = running.begun + (assignment.hard_limit.count() > 0
                                                 ? std::chrono::duration_cast<Clock::duration>(assignment.hard_limit)
                                                 : kHardLimitFactor * limit);
    running.ranks.resize(static_cast<std::size_t>(assignment.world));
    const auto scratch = slot.group->folder() / fmt::format("run{}", running.run);
    std::filesystem::create_directory(scratch);
    json command = assignment.command;
    command["run"] = running.run;
    command["world"] = assignment.world;
    command["limit"] = assignment.limit.count();
    command["scratch"] = scratch.string();
    if (observer_.begin) observer_.begin(index);
    slot.group->mark_output();
    slot.group->send(server_, command, assignment.world);
    slot.running = std::move(running);
    warm_up(slot, assignment);
  }

  // What the subject said, and where its ranks are.
  static json description_of(const WorkerGroup& group) {
    json description = group.description();
    description["one_host"] = group.is_on_one_host();
    return description;
  }

  // Where starting is slow, the group that will be needed next starts while this assignment runs.
  void warm_up(Slot& slot, const Assignment& current) {
    if (!options_.start_ahead || !has_processes() || attached()) return;
    if (slot.spare || pending_.empty()) return;
    const Assignment& next = assignments_[pending_.front()];
    if (!current.spoils_group && fits(*slot.group, slot.group_isolation, next)) return;
    slot.spare = start_group(next);
    slot.spare_isolation = next.isolation;
  }

  void report(std::size_t assignment, const Outcome& outcome) {
    if (!observer_.end(assignment, outcome)) stopping_ = true;
  }

  // ---- watching ----

  bool watch(Slot& slot) {
    Running& running = *slot.running;
    const auto now = Clock::now();
    if (now > running.deadline && now < running.hard_deadline) extend_deadline(*slot.group, running);
    bool over = running.idle >= slot.group->processes(running.world) && running.all_reported();
    over = over || (running.grace && now > *running.grace) || now > std::min(running.deadline, running.hard_deadline);
    // After a death a little time for the rest to report, and for the launcher to say how it ended. Ranks that somebody
    // else started are being ended by a launcher that we cannot ask, and our way to the screen with them.
    if (running.death)
      over = slot.group->all_ended() || running.all_reported() || now - *running.death > kTimeToDie || attached();
    if (over) {
      finish(slot);
    } else if (observer_.still && now - running.told >= options_.remind) {
      running.told = now;
      observer_.still(running.assignment, now - running.begun);
    }
    return over;
  }

  // A rank that went on entering and leaving calls is slow and does not hang.
  void extend_deadline(const WorkerGroup& group, Running& running) const {
    for (const FlightLog& flight : read_flights(group, running)) {
      const Clock::time_point newest{Clock::duration(static_cast<Clock::rep>(flight.newest()))};
      running.deadline = std::max(running.deadline, newest + limit_of(running));
    }
  }

  [[nodiscard]] Clock::duration limit_of(const Running& running) const {
    return std::chrono::duration_cast<Clock::duration>(assignments_[running.assignment].limit);
  }

  void finish(Slot& slot) {
    Running running = std::move(*std::exchange(slot.running, std::nullopt));
    const auto judged = Clock::now();
    const bool complete =
        running.all_reported() && !running.death && running.idle >= slot.group->processes(running.world);
    Outcome outcome = judge(*slot.group, running);
    const Assignment& assignment = assignments_[running.assignment];
    std::error_code error;
    std::filesystem::remove_all(slot.group->folder() / fmt::format("run{}", running.run), error);
    // Such a check, or one that failed half-way, may have left open calls. Ranks that somebody else started cannot be
    // replaced: they go on beside such calls.
    const bool in_doubt =
        (assignment.spoils_group || record::is_failure(outcome.verdict)) && calls_outlive_case(assignment);
    slot.spoiled = !complete || !running.ended.empty() || (in_doubt && !attached());
    // First the word, then the deed: ranks that somebody else started take our way to the screen with them.
    report(running.assignment, outcome);
    if (slot.spoiled) retire(slot.group);
    // A debugger takes seconds.
    const auto deaf = Clock::now() - judged;
    for (Slot& other : slots_)
      if (other.running) other.running->postpone(deaf);
  }

  // Asks everybody who knows something: the ranks' notes, the launcher, the system. harness/run decides.
  Outcome judge(WorkerGroup& group, const Running& running) const {
    Outcome outcome{.seconds = std::chrono::duration<double>(Clock::now() - running.begun).count()};
    const bool late = !running.all_reported() && !running.death && !running.grace;
    const std::vector<FlightLog> flights = read_flights(group, running);
    const run::CaseWord found = run::word_of_case(end_of(group, running, flights, late, outcome.seconds));
    outcome.ranks = found.ranks;
    if (!group.is_on_one_host())
      for (RankResult& rank : outcome.ranks) rank.host = group.host_of(rank.rank);
    outcome.warnings = slow_calls(flights);
    const std::string crossed = crossed_order(flights);
    const bool passed = found.word.verdict == Verdict::pass;
    const std::string different = passed ? first_difference(flights, Compared::completed) : std::string();
    const run::Word word = run::judged_by_calls(found.word, different, crossed);
    outcome.verdict = word.verdict;
    outcome.reason = word.reason;
    if (outcome.verdict == Verdict::pass) return outcome;
    if (!running.cut_off.empty()) outcome.reason += "; the driver ended its connection: " + running.cut_off;
    if (const std::string difference = first_difference(flights); !difference.empty())
      outcome.reason += "; first difference: " + difference;
    else if (const std::string both = crossed.empty() ? crosswise_wait(flights) : crossed; late && !both.empty())
      outcome.reason += "; " + both;
    const std::string stacks =
        late && options_.stacks ? stacks_of(group.processes_of(hung_ranks(outcome))) : std::string();
    outcome.output = group.tail() + stacks;
    return outcome;
  }

  // A log for each rank.
  static std::vector<FlightLog> read_flights(const WorkerGroup& group, const Running& running) {
    std::vector<FlightLog> flights;
    const auto since = static_cast<std::uint64_t>(running.begun.time_since_epoch().count());
    for (std::size_t rank = 0; rank < running.ranks.size(); ++rank)
      flights.push_back(read_flight(group.folder() / fmt::format("rank{}.flight", rank), since));
    return flights;
  }

  static std::vector<int> hung_ranks(const Outcome& outcome) {
    std::vector<int> hung;
    for (const RankResult& rank : outcome.ranks)
      if (rank.verdict == Verdict::hang) hung.push_back(rank.rank);
    return hung;
  }

  run::CaseEnd end_of(WorkerGroup& group, const Running& running, const std::vector<FlightLog>& flights, bool late,
                      double seconds) const {
    std::vector<run::RankEnd> ends;
    for (std::size_t rank = 0; rank < flights.size(); ++rank)
      ends.push_back({.reported = running.ranks[rank],
                      .lost = running.lost.contains(static_cast<int>(rank)),
                      .signalled = flights[rank].signal != 0});
    run::CaseEnd end{.ranks = run::rank_results(ends, late, seconds),
                     .reported = running.reported,
                     .strays = running.strays,
                     .death = running.death.has_value(),
                     .lost = running.lost,
                     .all_back = running.idle >= group.processes(running.world),
                     .is_job = !options_.group.subject.job.empty(),
                     .seconds = seconds};
    for (RankResult& rank : end.ranks) {
      const auto place = static_cast<std::size_t>(rank.rank);
      if (rank.verdict != Verdict::pass) rank.last_event = flights[place].position();
      if (!ends[place].reported && late && group.process_state(rank.rank) == "stopped")
        rank.last_event += "; its process is stopped";
      if (rank.verdict != Verdict::crash && !running.lost.contains(rank.rank)) continue;
      if (const auto how = group.end_of(rank.rank)) end.ends[rank.rank] = *how;
    }
    return end;
  }

  // ---- what arrives ----

  void poll() {
    std::vector<pollfd> descriptors{{interrupts_.descriptor(), POLLIN, 0}};
    server_.add_to(descriptors);
    for (const Slot& slot : slots_)
      if (slot.group) slot.group->add_to(descriptors);
    const int wait = std::ranges::any_of(slots_, [](const Slot& slot) { return slot.running && slot.running->death; })
                         ? 10
                         : static_cast<int>(kTick.count());
    ::poll(descriptors.data(), descriptors.size(), wait);
    for (const ControlServer::Event& event : server_.take()) receive(event);
    for (Slot& slot : slots_) notice_end(slot);
    std::erase_if(ending_, [](const auto& group) { return group->has_ended(); });
  }

  WorkerGroup* group_named(const std::string& name) {
    for (Slot& slot : slots_) {
      if (slot.group && slot.group->name() == name) return slot.group.get();
      if (slot.spare && slot.spare->name() == name) return slot.spare.get();
    }
    return nullptr;
  }

  void receive(const ControlServer::Event& event) {
    try {
      if (event.kind == ControlServer::Event::Kind::joined) return join(event);
      for (Slot& slot : slots_) {
        for (WorkerGroup* group : {slot.group.get(), slot.spare.get()}) {
          if (group == nullptr || !group->has(event.connection)) continue;
          if (event.kind == ControlServer::Event::Kind::left) return lose(slot, *group, event);
          return take(slot, *group, event);
        }
      }
    } catch (const json::exception& error) {
      observer_.log(fmt::format("control channel: a worker's message makes no sense: {}", error.what()));
      server_.close(event.connection);
    }
  }

  void join(const ControlServer::Event& event) {
    WorkerGroup* group = group_named(event.message.value("group", ""));
    if (group == nullptr) return server_.close(event.connection);  // of a group that has been ended
    group->joined(event.connection, event.message);
    if (attached() && group->is_whole() && observer_.listening) observer_.listening({});
  }

  void take(Slot& slot, WorkerGroup& group, const ControlServer::Event& event) {
    const json& message = event.message;
    const std::string type = message.value("type", "");
    if (type == "ready") return group.ready(event.connection, message);
    if (type == "cannot_start") {
      const std::string why = message.at("message");
      const bool usage = message.value("usage", false);
      if (usage && attached()) group.end_with(server_, 2);
      if (usage) throw InvalidArgument(why);
      throw subject::NotAvailable(why);
    }
    if (!slot.running || slot.group.get() != &group || message.value("run", std::uint64_t{0}) != slot.running->run)
      return;
    Running& running = *slot.running;
    if (type == "rank") {
      auto result = message.at("result").get<RankResult>();
      const auto ranks = group.ranks_of(event.connection, running.world);
      if (std::ranges::count(ranks, result.rank) == 0)
        return observer_.log(fmt::format("a worker reported rank {}, which it has not", result.rank));
      if (result.verdict != Verdict::pass && !running.grace) running.grace = Clock::now() + kGrace;
      running.reported.push_back(result.rank);
      auto& place = running.ranks[static_cast<std::size_t>(result.rank)];
      place = place ? run::contradicted(*place, std::move(result)) : std::move(result);
    } else if (type == "stray") {
      running.strays.push_back(message.at("failure").get<record::Failure>());
    } else if (type == "idle") {
      ++running.idle;
    } else if (type == "ends") {
      for (const int rank : group.ranks_of(event.connection, running.world)) running.ended.insert(rank);
      ++running.idle;
    } else if (type == "progress" || type == "output") {
      running.deadline = std::max(running.deadline, Clock::now() + limit_of(running));
      if (type == "output" && observer_.output)
        observer_.output(running.assignment, message.at("rank"), message.at("value"));
    }
  }

  // A worker is gone.
  void lose(Slot& slot, WorkerGroup& group, const ControlServer::Event& event) {
    if (!event.why.empty()) observer_.log("control channel: ended a worker's connection: " + event.why);
    if (slot.running && slot.group.get() == &group) {
      Running& running = *slot.running;
      const std::vector<int> ranks = group.ranks_of(event.connection, running.world);
      if (std::ranges::any_of(ranks, [&](int rank) { return running.ended.contains(rank); }))
        return group.left(event.connection);
      // A launcher ends the other ranks when one dies: only who went first counts as lost.
      if (!running.death) running.death = Clock::now();
      if (running.cut_off.empty()) running.cut_off = event.why;
      const bool first = Clock::now() - *running.death < kSameDeath;
      if (first) running.lost.insert(ranks.begin(), ranks.end());
    } else if (slot.group.get() == &group && group.is_ready()) {
      slot.spoiled = true;
    }
    group.left(event.connection);
  }

  // The launcher's process ended, or all workers that we started.
  void notice_end(Slot& slot) {
    if (!slot.group || !slot.running || slot.running->death) return;
    if (slot.running->idle >= slot.group->processes(slot.running->world) && slot.running->all_reported()) return;
    if (!slot.group->all_ended()) return;
    Running& running = *slot.running;
    running.death = Clock::now();
    for (int rank = 0; rank < running.world; ++rank) running.lost.insert(rank);
  }

  void finish_all() {
    for (Slot& slot : slots_) {
      if (attached() && slot.group) {
        slot.group->dismiss(server_);
        slot.group.reset();
      }
      retire(slot.group);
      retire(slot.spare);
      slot.running.reset();
      slot.waiting.reset();
    }
    const auto begun = Clock::now();
    while (!ending_.empty() && Clock::now() - begun < 5s) {
      std::erase_if(ending_, [](const auto& group) { return group->has_ended(); });
      std::vector<pollfd> descriptors;
      for (const auto& group : ending_) group->add_to(descriptors);
      ::poll(descriptors.data(), descriptors.size(), static_cast<int>(kTick.count()));
    }
    ending_.clear();
  }

  const std::vector<Assignment>& assignments_;
  const Options options_;
  const Observer& observer_;
  const std::string token_;
  const Interrupts interrupts_;
  const ScratchFolder scratch_;
  ControlServer server_;
  std::list<std::size_t> pending_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<WorkerGroup>> ending_;
  int groups_ = 0;
  std::uint64_t runs_ = 0;
  bool stopping_ = false;
};

}  // namespace

bool run(const std::vector<Assignment>& assignments, const Options& options, const Observer& observer) {
  return Driver(assignments, options, observer).run();
}

}  // namespace plumbline::launch
