#include "harness/subject/adapter/client.hpp"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reference/adapter/reference_service.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using suite::AdapterError;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::ThrowsMessage;
namespace fs = std::filesystem;

constexpr AdapterOptions kPatient{.limit = 20s};
constexpr AdapterOptions kHasty{.limit = 300ms};

// A shell adapter that says hello and then goes on with `script`.
std::string after_hello(const std::string& script) {
  return R"(read request; echo '{"id":1,"result":{"protocol":1,"name":"shell","version":"1","ops":["x"]}}'; )" + script;
}
// One that takes the next question, too.
std::string at_question(const std::string& script) { return after_hello("read request; " + script); }
std::string answering(const std::string& line) { return at_question("echo '" + line + "'; sleep 60"); }

// An adapter in Python, of a dictionary's text.
std::string python_adapter(const std::string& operations, const std::string& claims = "") {
  return fmt::format(
      "PYTHONPATH={} exec {} -B -c '\nimport ctypes, os, sys, time\nfrom plumbline_adapter import AdapterError, "
      "serve\n"
      "def refuse(kind): raise AdapterError(kind, \"no\")\nserve(\"python\", \"2\", {{{}}}{})'",
      PYTHON_FOLDER, PYTHON, operations, claims);
}

template <class Body>
std::string failure_of(Body body) {
  try {
    body();
  } catch (const RuntimeFailure& error) {
    return error.what();
  }
  return "no failure";
}

// What a question costs with an adapter that does not keep the protocol.
std::string failure_asking(const std::string& command, AdapterOptions options = kPatient) {
  AdapterClient client(command, options);
  const std::string failure = failure_of([&] { (void)client.ask("x", json::object()); });
  EXPECT_THAT(failure, HasSubstr(": x: it "));
  return failure;
}

class ScratchFile {
 public:
  ScratchFile() : path_(fs::temp_directory_path() / fmt::format("adapter_test.{}", ::getpid())) { fs::remove(path_); }
  ~ScratchFile() { fs::remove(path_); }
  [[nodiscard]] std::string path() const { return path_.string(); }
  // The number that a process writes there.
  [[nodiscard]] pid_t pid() const {
    pid_t pid = 0;
    for (int tries = 0; tries < 500 && pid == 0; ++tries, std::this_thread::sleep_for(10ms))
      std::ifstream(path_) >> pid;
    return pid;
  }

 private:
  fs::path path_;
};

// Whether a process still does something; one that only waits to be reaped, by whoever is its parent now,
// does not.
bool runs(pid_t pid) {
  std::string stat;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), stat);
  return !stat.empty() && stat.at(stat.rfind(')') + 2) != 'Z';
}
bool runs_for_long(pid_t pid) {
  for (int tries = 0; tries < 500 && runs(pid); ++tries) std::this_thread::sleep_for(10ms);
  return runs(pid);
}

TEST(AdapterClient, SaysHelloAndAsks) {
  AdapterClient client(python_adapter("\"double\": lambda n: {\"n\": 2 * n}"));
  EXPECT_EQ(client.identity().name, "python");
  EXPECT_EQ(client.identity().version, "2");
  EXPECT_THAT(client.operations(), Contains("double"));
  for (int n = 0; n < 100; ++n) EXPECT_EQ(client.ask("double", {{"n", n}}), (json{{"n", 2 * n}}));
}

TEST(AdapterClient, HandsOnErrorRepliesAndGoesOn) {
  AdapterClient client(python_adapter("\"refuse\": refuse, \"one\": lambda: 1"));
  for (const std::string kind : {"invalid_argument", "out_of_range", "not_found", "unsupported", "state", "failed"}) {
    try {
      (void)client.ask("refuse", {{"kind", kind}});
      ADD_FAILURE() << "no error";
    } catch (const AdapterError& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_EQ(error.message(), "no");
      EXPECT_EQ(error.what(), "refuse: " + kind + ": no");
    }
  }
  EXPECT_EQ(client.ask("one", json::object()), 1);
}

TEST(AdapterClient, PassesLargeQuestionsAndReplies) {
  AdapterClient client(python_adapter("\"echo\": lambda x: x"), kPatient);
  const json large = std::string(std::size_t{20} << 20, 'x');
  EXPECT_EQ(client.ask("echo", {{"x", large}}), large);
}

TEST(AdapterClient, TakesWhatAnAdapterWritesBeforeItHasReadTheQuestion) {
  AdapterClient client(
      after_hello("head -c 3000000 /dev/zero >&2; head -c 5000000 /dev/zero | tr '\\0' ' '; read request; "
                  "echo '{\"id\":2,\"result\":5}'"),
      kPatient);
  EXPECT_EQ(client.ask("x", std::string(1000000, 'x')), 5);
}

TEST(AdapterClient, RefusesAQuestionLongerThanALineAndGoesOn) {
  AdapterClient client(python_adapter("\"one\": lambda: 1"));
  EXPECT_THAT([&] { (void)client.ask("one", std::string(std::size_t{64} << 20, 'x')); },
              ThrowsMessage<InvalidArgument>(HasSubstr("67108864")));
  EXPECT_EQ(client.ask("one", json::object()), 1);
}

TEST(AdapterClient, NeedsACommandThatSpeaksTheProtocol) {
  EXPECT_THROW(AdapterClient(" "), InvalidArgument);
  EXPECT_THAT(failure_of([] { AdapterClient("./no_such_program"); }),
              AllOf(HasSubstr("'./no_such_program': hello: it closed its output; it exited with status 127"),
                    HasSubstr("not found")));
  EXPECT_THAT(failure_of([] { AdapterClient("echo Loading model"); }), HasSubstr("no reply (the line is not JSON"));
  EXPECT_THAT(failure_of([] { AdapterClient("cat"); }), HasSubstr("without one of result and error"));
  EXPECT_THAT(failure_of([] { AdapterClient("sleep 60", kHasty); }), HasSubstr("hello: it gave no answer in 0.3 s"));
  EXPECT_THAT(
      failure_of([] { AdapterClient(R"(echo '{"id":1,"result":{"protocol":2,"name":"","version":"","ops":[]}}')"); }),
      HasSubstr("protocol must be 1, got 2"));
  EXPECT_THAT(
      failure_of([] { AdapterClient(R"(echo '{"id":1,"result":{"protocol":1,"name":"","version":"","ops":[1]}}')"); }),
      HasSubstr("ops[0] must be a text, got 1"));
  EXPECT_THAT(
      failure_of([] { AdapterClient(R"(echo '{"id":1,"error":{"kind":"unsupported","message":"too old"}}')"); }),
      HasSubstr("it refused (unsupported: too old)"));
}

// What an adapter whose greeting has these fields claims, or why it cannot be asked.
std::string greeting_with(const std::string& fields) {
  const std::string greeting = R"({"protocol":1,"name":"n","version":"1","ops":["a.b"],)" + fields + "}";
  try {
    const AdapterClient client("echo '{\"id\":1,\"result\":" + greeting + "}'", kPatient);
    json claims = client.claims();
    for (const char* field : {"name", "version", "operations", "names_options"}) claims.erase(field);
    return claims.dump();
  } catch (const RuntimeFailure& error) {
    const std::string words = error.what();
    return words.substr(words.find("no greeting"));
  }
}

TEST(AdapterClient, AssumesOfWhoNamesNoValuesOnlyThoseOfTheSystemItself) {
  const auto claims_of = [](const std::string& fields) {
    const std::string greeting = R"({"protocol":1,"name":"n","version":"1","ops":["slowmo.trace"])" + fields + "}";
    return AdapterClient("echo '{\"id\":1,\"result\":" + greeting + "}'", kPatient).claims();
  };
  const json silent = claims_of(""), naming = claims_of(R"(,"options":{"slowmo.trace":{"graph":["Hub"]}})");
  EXPECT_EQ(silent.at("names_options"), false);
  EXPECT_EQ(naming.at("names_options"), true);
  const json &assumed = silent.at("options").at("slowmo.trace"), &named = naming.at("options").at("slowmo.trace");
  EXPECT_EQ(assumed.at("arithmetic"), json::array());
  EXPECT_EQ(assumed.at("fields"), json::array());
  EXPECT_EQ(assumed.at("mixing"), (json{"metropolis-hastings", "uniform"}));
  EXPECT_THAT(assumed.at("graph").dump(), AllOf(HasSubstr("RingGraph"), testing::Not(HasSubstr("Hub"))));
  EXPECT_EQ(named.at("graph"), json::array({"Hub"}));
  EXPECT_EQ(named.at("arithmetic"), json::array());
}

TEST(AdapterClient, ReadsWhatAnAdapterClaims) {
  EXPECT_EQ(greeting_with(R"("conventions":{"torch":"2.13"})"), R"({"conventions":{"torch":"2.13"},"options":{}})");
  EXPECT_EQ(greeting_with(R"("conventions":["torch","gloo"])"),
            R"({"conventions":{"gloo":"","torch":""},"options":{}})");
  EXPECT_EQ(greeting_with(R"("conventions":null,"options":null)"), R"({"options":{}})");
  EXPECT_EQ(greeting_with(R"("options":{"a.b":{"graph":["ring","star"],"dtype":[]}})"),
            R"({"options":{"a.b":{"dtype":[],"graph":["ring","star"]}}})");
}

TEST(AdapterClient, NamesWhatIsWrongWithAGreeting) {
  EXPECT_THAT(
      greeting_with(R"("conventions":"torch")"),
      HasSubstr("hello: conventions must be an object with the version that each means, {\"torch\": \"2.13\"}, or "
                "a list, got 'torch'"));
  EXPECT_THAT(greeting_with(R"("conventions":{"torch":2.13})"),
              HasSubstr("conventions.torch must be a text, got 2.13"));
  EXPECT_THAT(greeting_with(R"("conventions":[1])"), HasSubstr("conventions[0] must be a text, got 1"));
  EXPECT_THAT(greeting_with(R"("options":[])"), HasSubstr("options must be an object, got a list of 0"));
  EXPECT_THAT(greeting_with(R"("options":{"a.b":["ring"]})"), HasSubstr("options.a.b must be an object"));
  EXPECT_THAT(greeting_with(R"("options":{"a.b":{"graph":"ring"}})"), HasSubstr("options.a.b.graph must be a list"));
  EXPECT_THAT(greeting_with(R"("options":{"a.b":{"graph":["ring",1]}})"),
              HasSubstr("options.a.b.graph[1] must be a text, got 1"));
}

// What nobody knows would never be asked, or always: a slip in a greeting is said, with the name that was meant.
// HARNESS-053@f62a
TEST(OpenAdapter, NamesWhatAGreetingMisspells) {
  const auto words_of = [](const std::string& ops, const std::string& fields) {
    const std::string words = failure_of([&] {
      (void)open_adapter(
          R"(echo '{"id":1,"result":{"protocol":1,"name":"n","version":"1","ops":[)" + ops + "]" + fields + "}}'",
          kPatient);
    });
    const std::size_t hello = words.find("hello: ");
    return hello == std::string::npos ? words : words.substr(hello);
  };
  EXPECT_EQ(words_of(R"("schedules.genrate")", ""),
            "hello: there is no operation 'schedules.genrate'; did you mean schedules.generate?");
  EXPECT_EQ(words_of("", R"(,"conventions":["pytorch"])"),
            "hello: there is no convention 'pytorch'; did you mean torch?");
  EXPECT_EQ(words_of("", R"(,"options":{"schedule.generate":{}})"),
            "hello: there is no operation 'schedule.generate'; did you mean schedules.generate?");
  EXPECT_EQ(words_of("", R"(,"options":{"schedules.generate":{"schedul":[]}})"),
            "hello: there is no option of schedules.generate 'schedul'; did you mean schedule?");
  EXPECT_EQ(words_of("", R"(,"options":{"schedules.generate":{"schedule":["Schedule1F1b"]}})"),
            "hello: there is no schedule of schedules.generate 'Schedule1F1b'; did you mean Schedule1F1B?");
  EXPECT_THAT(words_of("", R"(,"convention":["torch"])"),
              HasSubstr("no field 'convention'; did you mean conventions?"));
  EXPECT_EQ(
      words_of(R"("bucketing.assign")",
               R"(,"conventions":{"torch":"2"},"options":{"bucketing.assign":{"device":["cuda:1"]}},"built":"now")"),
      "no failure");
  EXPECT_EQ(words_of(R"("x.reload","bucketing.assign")", R"(,"options":{"x.reload":{"what":["all"]}})"), "no failure");
  EXPECT_THAT(words_of(R"("xreload")", ""), HasSubstr("there is no operation 'xreload'"));
  // har.takes_any_name: whatever the greeting names is claimed; as the client itself does, which knows no operations.
  EXPECT_NO_THROW(
      AdapterClient(R"(echo '{"id":1,"result":{"protocol":1,"name":"n","version":"1","ops":["schedules.genrate"]}}')"))
      << "har.takes_any_name is found";
}

TEST(AdapterClient, SaysHowAnAdapterDiedAndWhatItWroteLast) {
  EXPECT_THAT(failure_asking(at_question("echo one >&2; echo the reason >&2; exit 3")),
              HasSubstr("it closed its output; it exited with status 3; on standard error it last wrote: one "
                        "| the reason"));
  EXPECT_THAT(failure_asking(at_question("kill -SEGV $$")), HasSubstr("was killed by signal 11 (Segmentation fault)"));
  EXPECT_THAT(failure_asking(after_hello("exit 0")), HasSubstr("exited with status 0"));
  const std::string failure =
      failure_asking(at_question("head -c 9000000 /dev/zero | tr '\\0' a >&2; echo end >&2; exit 1"));
  EXPECT_THAT(failure, HasSubstr("aaaend"));
  EXPECT_LT(failure.size(), 1000);
}

TEST(AdapterClient, EndsAnAdapterThatDoesNotAnswer) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(failure_asking(at_question("sleep 60"), kHasty), HasSubstr("it gave no answer in 0.3 s"));
  EXPECT_THAT(failure_asking(at_question("exec >&-; sleep 60")), HasSubstr("it closed its output"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

// HARNESS-043@a975
TEST(AdapterClient, KnowsTheFirstEndOfItsProgram) {
  AdapterClient client(at_question("exit 3"));
  EXPECT_FALSE(client.take_end());
  for (int question = 0; question < 2; ++question) EXPECT_THROW((void)client.ask("x", 1), RuntimeFailure);
  const auto end = client.take_end();
  ASSERT_TRUE(end);
  EXPECT_FALSE(end->hung);
  EXPECT_THAT(end->why, HasSubstr("it exited with status 3"));
  EXPECT_FALSE(client.take_end()) << "it was told";
  const auto knows_a_hang = [](const auto& take_end) {
    AdapterClient slow(at_question("sleep 60"), kHasty);
    EXPECT_THROW((void)slow.ask("x", 1), RuntimeFailure);
    return take_end(slow).value().hung;
  };
  EXPECT_TRUE(knows_a_hang([](AdapterClient& client) { return client.take_end(); }));
  // har.every_end_a_crash: who answers no more is taken for one that died.
  EXPECT_FALSE(knows_a_hang([](AdapterClient& client) {
    return std::optional(AdapterEnd{.why = client.take_end()->why});
  })) << "har.every_end_a_crash is found";
  AdapterClient babbles(at_question("echo words; sleep 60"));
  EXPECT_THROW((void)babbles.ask("x", 1), RuntimeFailure);
  EXPECT_FALSE(babbles.take_end()) << "it breaks the protocol, and lives";
}

TEST(AdapterClient, EndsAnAdapterThatDoesNotReadTheQuestion) {
  AdapterClient client(after_hello("sleep 60"), kHasty);
  EXPECT_THAT(failure_of([&] { (void)client.ask("x", std::string(1 << 20, 'x')); }), HasSubstr("gave no answer"));
}

TEST(AdapterClient, SurvivesAnAdapterThatDiesWhileItIsAsked) {
  AdapterClient client(after_hello("exec <&-; sleep 0.2; exit 4"), kPatient);
  EXPECT_THAT(failure_of([&] { (void)client.ask("x", std::string(1 << 24, 'x')); }), HasSubstr("exited with status 4"));
}

TEST(AdapterClient, RefusesWhatIsNoReply) {
  EXPECT_THAT(failure_asking(answering("Loading model")),
              AllOf(HasSubstr("'Loading model'"), HasSubstr("standard error")));
  EXPECT_THAT(failure_asking(answering("[")), HasSubstr("not JSON"));
  EXPECT_THAT(failure_asking(answering("[2]")), HasSubstr("no reply to id 2: '[2]'"));
  EXPECT_THAT(failure_asking(answering(R"({"id":3,"result":1})")), HasSubstr("no reply to id 2"));
  EXPECT_THAT(failure_asking(answering(R"({"id":"2","result":1})")), HasSubstr("no reply to id 2"));
  EXPECT_THAT(failure_asking(answering(R"({"id":null,"error":{"kind":"failed","message":"m"}})")),
              HasSubstr("no reply to id 2"));
  EXPECT_THAT(failure_asking(answering(R"({"result":1})")), HasSubstr("no reply to id 2"));
  EXPECT_THAT(failure_asking(answering(R"({"id":2})")), HasSubstr("result and error"));
  EXPECT_THAT(failure_asking(answering(R"({"id":2,"result":1,"error":{"kind":"failed","message":"m"}})")),
              HasSubstr("result and error"));
  for (const char* error :
       {"1", "{}", R"({"kind":"failed"})", R"({"kind":"odd","message":"m"})", R"({"kind":"failed","message":1})"})
    EXPECT_THAT(failure_asking(answering(fmt::format(R"({{"id":2,"error":{}}})", error))),
                HasSubstr("kinds invalid_argument"));
  EXPECT_THAT(failure_asking(at_question("head -c 1000000 /dev/zero | tr '\\0' '['; echo; sleep 60")),
              HasSubstr("deeper than 100"));
}

TEST(AdapterClient, EndsAnAdapterThatWritesWithoutEnd) {
  EXPECT_THAT(failure_asking(at_question("cat /dev/zero")), HasSubstr("a line of more than 67108864 bytes"));
  EXPECT_THAT(failure_asking(at_question("yes")), HasSubstr("no reply (the line is not JSON"));
  EXPECT_THAT(failure_asking(at_question("yes noise >&2; exit"), kHasty),
              AllOf(HasSubstr("no answer in"), HasSubstr("noise | noise")));
}

TEST(AdapterClient, NoticesAnAnswerThatNobodyAskedFor) {
  AdapterClient client(at_question(R"(echo '{"id":2,"result":1}'; echo '{"id":2,"result":1}'; sleep 60)"), kPatient);
  EXPECT_EQ(client.ask("x", json::object()), 1);
  EXPECT_THAT(failure_of([&] { (void)client.ask("x", json::object()); }), HasSubstr("no reply to id 3"));
}

TEST(AdapterClient, StartsAFreshAdapterAfterOneThatDied) {
  AdapterClient client(python_adapter("\"die\": lambda: os._exit(9), \"pid\": os.getpid"), kPatient);
  const json first = client.ask("pid", json::object());
  EXPECT_EQ(client.ask("pid", json::object()), first);
  EXPECT_THAT(failure_of([&] { (void)client.ask("die", json::object()); }), HasSubstr("exited with status 9"));
  EXPECT_NE(client.ask("pid", json::object()), first);
}

TEST(AdapterClient, GivesUpAnAdapterThatDoesNotStartAgain) {
  const ScratchFile file;
  AdapterClient client(fmt::format("echo start >> {0}; test $(wc -l < {0}) -gt 1 && exit 4; {1}", file.path(),
                                   python_adapter("\"die\": lambda: os._exit(9)")),
                       kPatient);
  EXPECT_THAT(failure_of([&] { (void)client.ask("die", json::object()); }), HasSubstr("exited with status 9"));
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(failure_of([&] { (void)client.ask("die", json::object()); }),
                HasSubstr("hello: it closed its output; it exited with status 4"));
  std::ifstream starts(file.path());
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(starts), {}, '\n'), 2);
}

TEST(AdapterClient, EndsWithoutLeavingAProcess) {
  const ScratchFile file;
  for (const char* script : {"read request", "sleep 60", "trap '' TERM; sleep 60; sleep 60"}) {
    auto client =
        std::make_unique<AdapterClient>(fmt::format("echo $$ > {}; ", file.path()) + after_hello(script), kPatient);
    const pid_t pid = file.pid();
    ASSERT_GT(pid, 0);
    client = nullptr;
    EXPECT_EQ(::kill(pid, 0), -1) << script;  // not even a zombie of ours
  }
}

TEST(AdapterClient, EndsWhatTheAdapterLeftBehind) {
  const ScratchFile file;
  auto client = std::make_unique<AdapterClient>(
      after_hello(fmt::format("(trap '' TERM; exec sleep 60) & echo $! > {}; exit 0", file.path())), kPatient);
  const pid_t pid = file.pid();
  ASSERT_GT(pid, 0);
  client = nullptr;
  EXPECT_FALSE(runs_for_long(pid));
}

TEST(AdapterClient, TakesTheAdapterWithItWhenItsProcessIsKilled) {
  const ScratchFile file;
  const pid_t child = ::fork();
  if (child == 0) {
    const AdapterClient client(fmt::format("echo $$ > {}; ", file.path()) + after_hello("exec sleep 60"), kPatient);
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  const pid_t pid = file.pid();
  ASSERT_GT(pid, 0);
  EXPECT_FALSE(runs_for_long(pid));
}

// The kernel tells the shell alone that its parent has ended.
TEST(AdapterClient, TakesWhatTheAdapterStartedWithItWhenItsProcessIsKilled) {
  const ScratchFile file;
  const pid_t child = ::fork();
  if (child == 0) {
    const AdapterClient client(after_hello(fmt::format("sh -c 'echo $$ > {}; exec sleep 60'; true", file.path())),
                               kPatient);
    (void)file.pid();
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  const pid_t pid = file.pid();
  ASSERT_GT(pid, 0);
  EXPECT_FALSE(runs_for_long(pid));
}

TEST(AdapterClient, EndsQuicklyWhereAnotherAdapterStillRuns) {
  bool quickly = false;  // at least once: the machine may be busy
  for (int attempt = 0; attempt < 5 && !quickly; ++attempt) {
    auto first = std::make_unique<AdapterClient>(after_hello("read request"), kPatient);
    const AdapterClient second(after_hello("sleep 60"), kPatient);  // forked while the first one's pipes were open
    const auto begin = std::chrono::steady_clock::now();
    first = nullptr;
    quickly = std::chrono::steady_clock::now() - begin < 400ms;
  }
  EXPECT_TRUE(quickly);
}

TEST(AdapterClient, WaitsForAnAnswerUntilItIsToldOtherwise) {
  AdapterClient client(at_question("echo the reason >&2; sleep 60"), kPatient);
  client.answer_by(std::chrono::steady_clock::now() + 600ms);
  EXPECT_THAT(failure_of([&] { (void)client.ask("x", json::object()); }),
              AllOf(HasSubstr("x: it gave no answer in 0.6 s"), HasSubstr("last wrote: the reason")));
}

TEST(AdapterClient, MayBeAskedFromAThreadThatEnds) {
  AdapterClient client(python_adapter("\"die\": lambda: os._exit(9), \"one\": lambda: 1"), kPatient);
  std::thread([&] {
    EXPECT_THAT(failure_of([&] { (void)client.ask("die", json::object()); }), HasSubstr("status 9"));
    EXPECT_EQ(client.ask("one", json::object()), 1);  // starts the second one
  }).join();
  EXPECT_EQ(client.ask("one", json::object()), 1);
}

class RecordedRingSums : public testing::TestWithParam<const char*> {};

TEST_P(RecordedRingSums, AreGivenThroughTheDoor) {
  const json vectors = json::parse(std::ifstream(RING_SUM_VECTORS));
  const auto adapter = open_adapter(GetParam());
  ASSERT_TRUE(adapter->operations().contains("comm.ring_sum"));
  ASSERT_EQ(vectors["cases"].size(), 169);
  for (json one : vectors["cases"]) {
    const json output = one["output"];
    const std::string name = one["name"];
    one.erase("name");
    one.erase("output");
    one["convention"] = "gloo";
    EXPECT_EQ(adapter->ask("comm.ring_sum", one)["output"], output) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Adapters, RecordedRingSums, testing::Values("reference", REFERENCE_ADAPTER, SAMPLE_ADAPTER));

TEST(LocalAdapter, AsksTheReferenceThroughTheSameText) {
  LocalAdapter adapter(adapter::reference_service());
  EXPECT_EQ(adapter.identity().name, "plumbline reference");
  EXPECT_THAT(adapter.operations(), Contains("comm.ring_sum"));
  try {
    (void)adapter.ask("comm.ring_sum", {{"world_size", 0}});
    ADD_FAILURE() << "no error";
  } catch (const AdapterError& error) {
    EXPECT_EQ(error.kind(), "invalid_argument");
    EXPECT_EQ(error.message(), "comm.ring_sum: dtype is missing");
  }
  EXPECT_THROW((void)adapter.ask("no.such", json::object()), AdapterError);
}

// The sample and the reference share no code: other inputs than the recorded ones, in both conventions.
TEST(LocalAdapter, AgreesWithTheSampleOnRandomSums) {
  LocalAdapter reference(adapter::reference_service());
  const auto sample = open_adapter(SAMPLE_ADAPTER);
  unsigned seed = 1;
  const auto next = [&seed](unsigned below) { return (seed = seed * 1664525u + 1013904223u) / 65536u % below; };
  for (int i = 0; i < 400; ++i) {
    const unsigned ranks = 1 + next(7);
    const unsigned elements = next(40);
    json inputs = json::array();
    for (unsigned rank = 0; rank < ranks; ++rank) {
      json row = json::array();
      for (unsigned k = 0; k < elements; ++k) {
        const double value = std::ldexp(static_cast<double>(next(65536)) / 65536 - 0.5, static_cast<int>(next(12)) - 4);
        row.push_back(next(50) == 0 ? std::numeric_limits<double>::infinity() : value);
      }
      inputs.push_back(row);
    }
    const char* dtypes[] = {"float16", "bfloat16", "float32", "float64"};
    const char* conventions[] = {"gloo", "plumbline"};
    const json args{{"world_size", ranks}, {"elements", elements}, {"dtype", dtypes[next(4)]},
                    {"op", "all_reduce"},  {"inputs", inputs},     {"convention", conventions[next(2)]}};
    ASSERT_EQ(reference.ask("comm.ring_sum", args), sample->ask("comm.ring_sum", args)) << args;
  }
}

// What the helper makes of a function, beside what adapter_test.py asks of every adapter.
TEST(PythonHelper, ReportsExceptionsByKind) {
  AdapterClient client(python_adapter(
      "\"value\": lambda: int(\"x\"), \"index\": lambda: [][1], \"key\": lambda: {}[1], "
      "\"not_implemented\": lambda: (_ for _ in ()).throw(NotImplementedError(\"later\")), "
      "\"exit\": sys.exit, \"zero\": lambda: 1 / 0, \"unwritable\": lambda: {1, 2}, "
      "\"attribute\": lambda: os.nothing, \"state\": lambda: (_ for _ in ()).throw(RuntimeError(\"now\")), "
      "\"assertion\": lambda: (_ for _ in ()).throw(AssertionError())"));
  const auto kind = [&](const std::string& op) -> std::string {
    try {
      return "result " + client.ask(op, json::object()).dump();
    } catch (const AdapterError& error) {
      return std::string(error.kind());
    }
  };
  EXPECT_EQ(kind("value"), "invalid_argument");
  EXPECT_EQ(kind("index"), "out_of_range");
  EXPECT_EQ(kind("key"), "not_found");
  EXPECT_EQ(kind("not_implemented"), "unsupported");
  EXPECT_EQ(kind("exit"), "failed");
  EXPECT_EQ(kind("zero"), "invalid_argument");
  EXPECT_EQ(kind("attribute"), "invalid_argument");
  EXPECT_EQ(kind("assertion"), "invalid_argument");
  EXPECT_EQ(kind("state"), "state");
  EXPECT_EQ(kind("unwritable"), "invalid_argument");
}

TEST(PythonHelper, PassesFieldsOfAnErrorOn) {
  AdapterClient client(python_adapter(
      "\"x\": lambda: (_ for _ in ()).throw(AdapterError(\"failed\", \"no\", stage=\"prune\", kinds=2))"));
  try {
    (void)client.ask("x", json::object());
    FAIL() << "it is answered";
  } catch (const AdapterError& error) {
    EXPECT_EQ(error.kind(), "failed");
    EXPECT_EQ(error.message(), "no");
    EXPECT_THAT(error.fields(),
                testing::UnorderedElementsAre(testing::Pair("stage", "prune"), testing::Pair("kinds", "2")));
  }
}

TEST(PythonHelper, TakesTheSignatureForTheFields) {
  AdapterClient client(python_adapter("\"f\": lambda a, b=2, c=None: [a, b, c]"));
  EXPECT_EQ(client.ask("f", {{"a", 1}}), json::parse("[1,2,null]"));
  EXPECT_EQ(client.ask("f", {{"a", 1}, {"b", nullptr}, {"c", 3}, {"convention", "plumbline"}}), json::parse("[1,2,3]"));
  for (const char* args : {"{}", R"({"a":null})", R"({"a":1,"d":2})", R"({"a":1,"d":null})"})
    EXPECT_THAT([&] { (void)client.ask("f", json::parse(args)); },
                ThrowsMessage<AdapterError>(HasSubstr("invalid_argument")));
}

TEST(PythonHelper, ClaimsAndRefusesConventions) {
  AdapterClient client(python_adapter(R"("f": lambda n: n, "g": lambda convention="plumbline": convention)",
                                      R"(, conventions={"torch": "2.13"}, options={"f": {"n": ["1"]}})"));
  EXPECT_EQ(client.claims().at("conventions"), (json{{"torch", "2.13"}}));
  EXPECT_EQ(client.claims().at("options"), json::parse(R"({"f":{"n":["1"]}})"));
  EXPECT_EQ(client.ask("f", {{"n", 1}, {"convention", "torch"}}), 1);
  EXPECT_EQ(client.ask("g", {{"convention", "torch"}}), "torch");
  for (const char* op : {"f", "g"})
    for (const json& convention : {json("gloo"), json()})
      EXPECT_THAT([&] { (void)client.ask(op, {{"n", 1}, {"convention", convention}}); },
                  ThrowsMessage<AdapterError>(HasSubstr("unsupported: " + std::string(op) + ": convention")));
}

TEST(PythonHelper, KeepsWhatAFrameworkPrintsOutOfTheGreeting) {
  AdapterClient client(fmt::format(
      "PYTHONPATH={} exec {} -B -c '\nfrom plumbline_adapter import serve\nimport ctypes, logging, os, sys\n"
      "os.write(1, b\"at once\")\nctypes.CDLL(None).puts(b\"C\")\nctypes.CDLL(None).fflush(None)\n"
      "logging.basicConfig(stream=sys.stdout)\nlogging.error(\"log\")\nprint(\"import\")\n"
      "serve(\"python\", \"2\", {{\"one\": lambda: [os.write(1, b\"x\"), print(\"y\"), 1]}})'",
      PYTHON_FOLDER, PYTHON));
  EXPECT_EQ(client.identity().name, "python");
  EXPECT_EQ(client.ask("one", json::object()), json::parse("[1,null,1]"));
}

TEST(PythonHelper, WritesNumbersThatAreNotFiniteAndKeepsPrintsOutOfTheReplies) {
  AdapterClient client(
      python_adapter("\"f\": lambda: [print(\"noise\"), {\"a\": (float(\"inf\"), -float(\"inf\"), float(\"nan\"))}]"));
  EXPECT_EQ(client.ask("f", json::object()), json::parse(R"([null,{"a":["inf","-inf","nan"]}])"));
}

// A framework's exceptions may have attributes of those names: kinds and texts of an error are AdapterError's alone.
TEST(PythonHelper, TakesKindAndFieldsOfItsOwnErrorAlone) {
  AdapterClient client(python_adapter(
      R"x("own": lambda: (_ for _ in ()).throw(AdapterError("state", "no", stage=7)),
          "other": lambda: (_ for _ in ()).throw(type("Odd", (ValueError,), {"kind": {}, "fields": 3})("odd")))x"));
  EXPECT_THAT([&] { (void)client.ask("other", json::object()); },
              ThrowsMessage<AdapterError>(HasSubstr("invalid_argument: odd")));
  EXPECT_THAT([&] { (void)client.ask("own", json::object()); }, ThrowsMessage<AdapterError>(HasSubstr("state: no")));
}

}  // namespace
}  // namespace plumbline::subject
