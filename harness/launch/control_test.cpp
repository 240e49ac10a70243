#include "harness/launch/control.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"

// What strangers send to a driver, and that nothing is left behind, is in harness/faults.
namespace plumbline::launch {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class LineReaderTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0); }
  void TearDown() override {
    for (const int end : ends_) ::close(end);
  }
  void send(const std::string& text) const {
    ASSERT_EQ(::send(ends_[0], text.data(), text.size(), MSG_DONTWAIT), static_cast<ssize_t>(text.size()));
  }
  int ends_[2]{-1, -1};
};

TEST_F(LineReaderTest, TakesNoMoreThanALongestLineAtOnceAndTheRestLater) {
  constexpr std::size_t longest = 100, lines = 200;
  LineReader reader(longest);
  std::string text;
  for (std::size_t i = 0; i < lines; ++i) text += "{}\n";
  send(text);
  std::vector<json> messages;
  EXPECT_EQ(reader.read(ends_[1], messages), LineReader::State::open);
  EXPECT_LE(messages.size(), longest / 3);
  for (std::size_t i = 0; i < lines; ++i) EXPECT_EQ(reader.read(ends_[1], messages), LineReader::State::open);
  EXPECT_EQ(messages.size(), lines);
}

TEST_F(LineReaderTest, ALineMayBeAsLongAsAllowedAndNoLonger) {
  LineReader reader(50);
  std::vector<json> messages;
  send(R"({"a":")" + std::string(42, 'x') + "\"}\n");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reader.read(ends_[1], messages), LineReader::State::open);
  ASSERT_EQ(messages.size(), 1u);
  send(R"({"a":")" + std::string(43, 'x') + "\"}\n");
  LineReader::State state = LineReader::State::open;
  for (int i = 0; i < 3 && state == LineReader::State::open; ++i) state = reader.read(ends_[1], messages);
  EXPECT_EQ(state, LineReader::State::too_long);
}

TEST(ControlTest, AMessageThatTheDriverWouldNotTakeIsRefusedWhereItIsSent) {
  ControlServer server("127.0.0.1", "token", [](const std::string&) {});
  ControlClient client(server.endpoint(), "token", json::object());
  try {
    client.send({{"type", "output"}, {"value", std::string(ControlServer::kLongestLine, 'x')}});
    FAIL() << "it was sent";
  } catch (const OutOfRange& error) {
    EXPECT_THAT(error.what(), HasSubstr("a message of type 'output' has 41943"));
    EXPECT_THAT(error.what(), HasSubstr("carries at most 4194304 at once"));
  }
  client.send({{"type", "output"}, {"value", std::string(1000, 'x')}});
  std::vector<ControlServer::Event> events;
  for (int i = 0; i < 200 && events.size() < 2; ++i) {
    for (ControlServer::Event& event : server.take()) events.push_back(std::move(event));
    ::usleep(10'000);
  }
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].kind, ControlServer::Event::Kind::message);
  // While it waits it lets others' messages go: until nothing is left, or the next command comes.
  int calls = 0;
  server.send(events[0].connection, {{"type", "run"}});
  EXPECT_EQ(client.next([&calls] { return ++calls < 3; }).at("type"), "run");
  EXPECT_LE(calls, 3);
  client.send({{"type", "quit"}});
  calls = 0;
  const auto progress = [&] {
    if (++calls == 3) server.send(events[0].connection, {{"type", "quit"}});  // lets the client go
    return true;
  };
  EXPECT_EQ(client.next(progress).at("type"), "quit");
  EXPECT_GE(calls, 3);
}

TEST(ControlTest, WhoCannotReachTheDriverIsToldOfTheOption) {
  std::string endpoint;
  {
    const ControlServer gone("127.0.0.1", "token", [](const std::string&) {});
    endpoint = gone.endpoint();
  }
  try {
    const ControlClient client(endpoint, "token", json::object());
    FAIL() << "it was reached";
  } catch (const RuntimeFailure& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot reach the driver at " + endpoint));
    EXPECT_THAT(error.what(), HasSubstr("--control-address"));
  }
}

}  // namespace
}  // namespace plumbline::launch
