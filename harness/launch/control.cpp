#include "harness/launch/control.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"

namespace plumbline::launch {

using nlohmann::json;
using namespace std::chrono_literals;

namespace {

constexpr auto kTimeToPresent = 10s;
constexpr std::size_t kMostConnections = 4096;

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

std::optional<Address> numeric_address(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return std::nullopt;
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  return address;
}

std::string text_of(Address address) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (::getnameinfo(address.get(), address.length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "?";
  return address.storage.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::pair<std::string, std::string> split_endpoint(const std::string& endpoint) {
  const auto colon = endpoint.rfind(':');
  if (colon == std::string::npos) throw InvalidArgument(fmt::format("'{}' is no address:port", endpoint));
  std::string host = endpoint.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return {host, endpoint.substr(colon + 1)};
}

// Takes as long for a wrong token as for a right one.
bool same_token(const std::string& mine, const std::string& theirs) {
  unsigned difference = static_cast<unsigned>(mine.size() ^ theirs.size());
  for (std::size_t i = 0; i < mine.size(); ++i)
    difference |=
        static_cast<unsigned char>(mine[i]) ^ (i < theirs.size() ? static_cast<unsigned char>(theirs[i]) : 0u);
  return difference == 0;
}

// Messages go at once. A host that is gone, or a link that is cut, ends the connection within a minute at both ends:
// without that a rank on another host would wait for its driver for hours.
void set_up(int descriptor) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(descriptor, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 60'000);  // ms: of what was sent and not taken
}

// Sends all of it; false when the other end is gone. A peer that does not read for ten seconds counts as gone. Too long
// a line would only end the connection at the other end: better that the sender hears of it.
bool send_line(int descriptor, const json& message) {
  const std::string line = message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  if (line.size() > ControlServer::kLongestLine)
    throw OutOfRange(fmt::format("a message of type '{}' has {} bytes; the control channel carries at most {} at once",
                                 message.value("type", ""), line.size(), ControlServer::kLongestLine));
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t count = ::send(descriptor, line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      pollfd ready{descriptor, POLLOUT, 0};
      if (::poll(&ready, 1, 10000) <= 0) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string random_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
    throw RuntimeFailure(fmt::format("no random bytes: {}", std::strerror(errno)));
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

LineReader::State LineReader::read(int descriptor, std::vector<json>& messages) {
  char chunk[65536];
  for (std::size_t taken = 0; taken < longest_;) {
    const ssize_t count = ::recv(descriptor, chunk, std::min(sizeof chunk, longest_ - taken), MSG_DONTWAIT);
    if (count == 0) return State::closed;
    if (count < 0) return errno == EAGAIN || errno == EINTR ? State::open : State::closed;
    taken += static_cast<std::size_t>(count);
    rest_.append(chunk, static_cast<std::size_t>(count));
    std::size_t begin = 0;
    for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      if (end - begin > longest_) return State::too_long;
      json message =
          json::parse(rest_.begin() + static_cast<long>(begin), rest_.begin() + static_cast<long>(end), nullptr, false);
      if (!message.is_object()) return State::no_json;
      messages.push_back(std::move(message));
    }
    rest_.erase(0, begin);
    if (rest_.size() > longest_) return State::too_long;
  }
  return State::open;
}

ControlServer::ControlServer(const std::string& address, std::string token, std::function<void(const std::string&)> log)
    : token_(std::move(token)), log_(std::move(log)) {
  auto bound = numeric_address(address, "0");
  if (!bound) throw InvalidArgument(fmt::format("control address '{}' is no IPv4 or IPv6 address", address));
  listener_ = ::socket(bound->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener_ < 0 || ::bind(listener_, bound->get(), bound->length) != 0 || ::listen(listener_, 128) != 0)
    throw RuntimeFailure(fmt::format("cannot listen on '{}': {}", address, std::strerror(errno)));
  ::getsockname(listener_, bound->get(), &bound->length);
  endpoint_ = text_of(*bound);
}

ControlServer::~ControlServer() {
  for (const auto& connection : connections_) ::close(connection->descriptor);
  if (listener_ >= 0) ::close(listener_);
}

void ControlServer::add_to(std::vector<pollfd>& descriptors) const {
  descriptors.push_back({listener_, POLLIN, 0});
  for (const auto& connection : connections_) descriptors.push_back({connection->descriptor, POLLIN, 0});
}

void ControlServer::accept_all() {
  for (;;) {
    Address peer;
    peer.length = sizeof peer.storage;
    const int descriptor = ::accept4(listener_, peer.get(), &peer.length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) return;
    if (connections_.size() >= kMostConnections) {
      log_(fmt::format("control channel: refused {}: too many connections", text_of(peer)));
      ::close(descriptor);
      continue;
    }
    set_up(descriptor);
    connections_.push_back(std::make_unique<Connection>(Connection{next_number_++, descriptor}));
  }
}

void ControlServer::drop(Connection& connection, const std::string& why, std::vector<Event>& events) {
  if (connection.joined)
    events.push_back({Event::Kind::left, connection.number, {}, why});
  else
    log_(fmt::format("control channel: dropped a connection: {}", why.empty() ? "it was closed" : why));
  ::close(std::exchange(connection.descriptor, -1));
}

bool ControlServer::greet(Connection& connection, json& hello) {
  const auto token = hello.find("token");
  if (hello.value("type", json()) != "hello" || token == hello.end() || !token->is_string() ||
      !same_token(token_, token->get<std::string>()))
    return false;
  hello.erase("token");
  connection.joined = true;
  connection.reader.allow(kLongestLine);
  return true;
}

void ControlServer::receive(Connection& connection, std::vector<Event>& events) {
  std::vector<json> messages;
  const LineReader::State state = connection.reader.read(connection.descriptor, messages);
  for (json& message : messages) {
    const bool first = !connection.joined;
    if (first && !greet(connection, message)) return drop(connection, "it did not present the run's token", events);
    events.push_back({first ? Event::Kind::joined : Event::Kind::message, connection.number, std::move(message), ""});
  }
  if (state == LineReader::State::closed) return drop(connection, "", events);
  if (state == LineReader::State::too_long) return drop(connection, "it sent a line that is too long", events);
  if (state == LineReader::State::no_json) return drop(connection, "it sent a line that is no JSON object", events);
  if (!connection.joined && std::chrono::steady_clock::now() - connection.since > kTimeToPresent)
    drop(connection, "it presented no token in time", events);
}

std::vector<ControlServer::Event> ControlServer::take() {
  accept_all();
  std::vector<Event> events;
  for (const auto& connection : connections_) receive(*connection, events);
  std::erase_if(connections_, [](const auto& connection) { return connection->descriptor < 0; });
  return events;
}

void ControlServer::send(int connection, const json& message) {
  for (const auto& one : connections_)
    if (one->number == connection && !send_line(one->descriptor, message)) ::shutdown(one->descriptor, SHUT_RDWR);
}

void ControlServer::close(int connection) {
  for (const auto& one : connections_)
    if (one->number == connection) ::close(std::exchange(one->descriptor, -1));
  std::erase_if(connections_, [](const auto& one) { return one->descriptor < 0; });
}

ControlClient::ControlClient(const std::string& endpoint, const std::string& token, json hello) {
  const auto [host, port] = split_endpoint(endpoint);
  auto address = numeric_address(host, port);
  if (!address) throw InvalidArgument(fmt::format("control endpoint '{}' is no address:port", endpoint));
  descriptor_ = ::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor_ < 0 || ::connect(descriptor_, address->get(), address->length) != 0)
    throw RuntimeFailure(fmt::format(
        "cannot reach the driver at {}: {}; ranks on other hosts reach it where rank 0's host has an address "
        "that they see, given as --control-address",
        endpoint, std::strerror(errno)));
  set_up(descriptor_);
  hello["type"] = "hello";
  hello["token"] = token;
  send(hello);
  reader_ = std::thread([this] { read_all(); });
}

ControlClient::~ControlClient() {
  leaving_ = true;
  ::shutdown(descriptor_, SHUT_RDWR);
  reader_.join();
  ::close(descriptor_);
}

void ControlClient::read_all() {
  LineReader reader(ControlServer::kLongestLine);
  for (;;) {
    pollfd ready{descriptor_, POLLIN, 0};
    if (::poll(&ready, 1, -1) < 0 && errno != EINTR) break;
    std::vector<json> messages;
    const LineReader::State state = reader.read(descriptor_, messages);
    {
      const std::lock_guard hold(mutex_);
      for (json& message : messages) {
        const std::string type = message.value("type", "");
        if (type == "quit") leaving_ = true;
        if (type == "end_with") status_ = message.value("status", 3);
        if (type != "end_with") commands_.push_back(std::move(message));
      }
    }
    arrived_.notify_one();
    if (state != LineReader::State::open) break;
  }
  // The rank may be stuck in the subject: only leaving at once is sure to leave nothing behind.
  if (!leaving_) ::_exit(status_);
}

void ControlClient::send(const json& message) {
  const std::lock_guard hold(send_mutex_);
  send_line(descriptor_, message);
}

json ControlClient::next(const std::function<bool()>& progress) {
  constexpr std::chrono::milliseconds shortest{1}, longest{64};
  const auto has_arrived = [this] { return !commands_.empty(); };
  std::unique_lock hold(mutex_);
  for (auto pause = shortest; !has_arrived(); pause = std::min(2 * pause, longest)) {
    hold.unlock();
    const bool has_more = progress();
    hold.lock();
    if (has_more)
      arrived_.wait_for(hold, pause, has_arrived);
    else
      arrived_.wait(hold, has_arrived);
  }
  json command = std::move(commands_.front());
  commands_.pop_front();
  return command;
}

}  // namespace plumbline::launch
