// harness/launch/control.hpp: how ranks and driver talk, beside the subject and never over it.
//
// Model   JSON objects, one a line, over TCP on loopback or a given address. A worker's first line presents the run's
//         token; whoever does not is dropped and logged. A line that is too long or no JSON ends its connection,
//         nothing else. Workers end themselves when the driver is gone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>
#include <poll.h>

namespace plumbline::launch {

/// 128 random bits as hexadecimal digits. Throws RuntimeFailure.
[[nodiscard]] std::string random_token();

inline constexpr const char* kTokenVariable = "PLUMBLINE_TOKEN";
inline constexpr const char* kControlVariable = "PLUMBLINE_CONTROL";  // "127.0.0.1:40123"

/// Splits a stream into lines of JSON.
class LineReader {
 public:
  explicit LineReader(std::size_t longest) : longest_(longest) {}
  enum class State { open, closed, too_long, no_json };
  /// Reads what is there without blocking, at most about a longest line's worth, so that nobody who sends without end
  /// keeps the reader; appends the complete messages.
  State read(int descriptor, std::vector<nlohmann::json>& messages);
  void allow(std::size_t longest) { longest_ = longest; }

 private:
  std::size_t longest_;
  std::string rest_;
};

class ControlServer {
 public:
  static constexpr std::size_t kLongestHello = 16 * 1024;
  static constexpr std::size_t kLongestLine = 4 * 1024 * 1024;

  struct Event {
    enum class Kind { joined, message, left };
    Kind kind;
    int connection;
    nlohmann::json message;  // of `joined` the hello, without the token
    std::string why;         // of `left`: why the server ended the connection; empty when the worker did
  };

  /// Listens on `address` (an IPv4 or IPv6 address of this host). `log` gets a line for each connection that is
  /// refused.
  /// Throws InvalidArgument for a bad address, RuntimeFailure.
  ControlServer(const std::string& address, std::string token, std::function<void(const std::string&)> log);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// "127.0.0.1:40123", "[::1]:40123".
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }

  /// Adds what must be polled.
  void add_to(std::vector<pollfd>& descriptors) const;
  /// Takes what has arrived, without blocking.
  [[nodiscard]] std::vector<Event> take();
  /// Sends to a worker; a connection that is gone is noticed by take(). Throws OutOfRange for too long a message.
  void send(int connection, const nlohmann::json& message);
  void close(int connection);

 private:
  struct Connection {
    int number;
    int descriptor;
    LineReader reader{kLongestHello};
    bool joined = false;
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  };
  void accept_all();
  void receive(Connection& connection, std::vector<Event>& events);
  bool greet(Connection& connection, nlohmann::json& hello);
  void drop(Connection& connection, const std::string& why, std::vector<Event>& events);

  std::string token_;
  std::function<void(const std::string&)> log_;
  std::string endpoint_;
  int listener_ = -1;
  int next_number_ = 1;
  std::vector<std::unique_ptr<Connection>> connections_;
};

/// A worker's end. A thread of its own reads; when the driver is gone it ends the process, whatever that does.
class ControlClient {
 public:
  /// Connects and presents the token with `hello`. Throws RuntimeFailure.
  ControlClient(const std::string& endpoint, const std::string& token, nlohmann::json hello);
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  /// Any thread. Throws OutOfRange for a message that is longer than the longest line.
  void send(const nlohmann::json& message);
  /// The next command. While it waits for it, it calls `progress` again and again, less often as time goes on, until
  /// that returns false.
  [[nodiscard]] nlohmann::json next(const std::function<bool()>& progress);
  /// With which exit status this process ends when the driver is gone: 3 until this is called.
  void end_with(int status) { status_ = status; }

 private:
  void read_all();
  int descriptor_ = -1;
  std::mutex send_mutex_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<nlohmann::json> commands_;
  std::atomic<bool> leaving_{false};
  std::atomic<int> status_{3};
  std::thread reader_;
};

}  // namespace plumbline::launch
