// A training program as the job door takes it, in C++ without a framework: linear layers and relus, data ranks that
// add gradients up over TCP, and SGD. What a run asks for beyond that is skipped.
//
//   plumbline check --profile data-parallel --job build/tests/job_mlp --filter '*[model=mlp,*'
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <toml++/toml.h>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Values = std::vector<float>;

struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// ---- what the run is

// The fields that this program knows. It must not train past one that it does not know.
const std::map<std::string, std::vector<std::string>> kFields{
    {"", {"protocol", "seed"}},
    {"parallel", {"pipeline", "data", "tensor", "order"}},
    {"run",
     {"steps", "global_batch", "micro_batches", "accumulation", "dtype", "schedule", "chunks", "bucket_bytes",
      "device"}},
    {"model", {"stages"}},
    {"model.layer", {"type", "in", "out", "bias"}},
    {"loss", {"type"}},
    {"optimizer", {"type", "lr", "momentum", "nesterov", "weight_decay"}},
    {"files", {"weights", "batches"}}};

// What these say at their defaults is what this program does.
bool is_plain(const std::string& path, const toml::node& value) {
  if (path == "model.frozen" || path == "optimizer.no_decay") return value.as_array()->empty();
  return (path == "run.activations" || path == "loss.row_weights") && !value.value_or(true);
}

void require_known(const toml::table& table, const std::string& name) {
  for (const auto& [key, value] : table) {
    const std::string path = (name.empty() ? "" : name + ".") + std::string(key.str());
    if (const auto known = kFields.find(path); known != kFields.end()) {
      if (const toml::table* inner = value.as_table()) require_known(*inner, path);
      if (const toml::array* list = value.as_array())
        for (const toml::node& one : *list) require_known(*one.as_table(), path);
    } else if (!std::ranges::count(kFields.at(name), key.str()) && !is_plain(path, value)) {
      throw Unsupported(path + " in the specification: this program does not know it");
    }
  }
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no thread changes the environment
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set; plumbline check --job sets it");
  return value;
}

// ---- safetensors: the size of a JSON header, the header, and the data

struct Tensor {
  std::vector<std::int64_t> shape;
  Values values;                     // of F32
  std::vector<std::int64_t> labels;  // of I64
};

std::map<std::string, Tensor> load(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  in.exceptions(std::ios::failbit);
  std::uint64_t size = 0;
  in.read(reinterpret_cast<char*>(&size), sizeof size);
  std::string text(size, ' ');
  in.read(text.data(), static_cast<std::streamsize>(size));
  const auto read = [&](auto& elements, const json& offsets) {
    const std::uint64_t begin = offsets[0], end = offsets[1];
    elements.resize((end - begin) / sizeof elements[0]);
    in.seekg(static_cast<std::streamoff>(sizeof size + size + begin));
    in.read(reinterpret_cast<char*>(elements.data()), static_cast<std::streamsize>(end - begin));
  };
  std::map<std::string, Tensor> tensors;
  const json header = json::parse(text);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    Tensor& tensor = tensors[name];
    tensor.shape = entry["shape"].get<std::vector<std::int64_t>>();
    entry["dtype"] == "I64" ? read(tensor.labels, entry["data_offsets"]) : read(tensor.values, entry["data_offsets"]);
  }
  return tensors;
}

void save(const fs::path& file, const std::map<std::string, Tensor>& tensors, const json& metadata) {
  json header{{"__metadata__", metadata}};
  std::size_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = end;
    end += tensor.values.size() * sizeof(float);
    header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  std::ofstream out(file, std::ios::binary);
  out.exceptions(std::ios::failbit);
  out.write(reinterpret_cast<const char*>(&size), sizeof size);
  out << text;
  for (const auto& [name, tensor] : tensors)
    out.write(reinterpret_cast<const char*>(tensor.values.data()),
              static_cast<std::streamsize>(tensor.values.size() * sizeof(float)));
}

// ---- ranks: each is connected to rank 0, which adds up

class Ranks {
 public:
  Ranks(int rank, int world) : rank_(rank) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(environment("MASTER_PORT"))));
    if (inet_pton(AF_INET, environment("MASTER_ADDR").c_str(), &address.sin_addr) != 1)
      throw std::runtime_error("MASTER_ADDR = '" + environment("MASTER_ADDR") + "': it must be an IPv4 address");
    const auto* at = reinterpret_cast<const sockaddr*>(&address);
    if (rank > 0)
      connect_to(at);
    else
      accept_all(at, world);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() {
    for (const int one : sockets_) close(one);
  }

  void add_up(std::vector<double>& sum) const {
    std::vector<double> others(sum.size());
    if (rank_ > 0) whole(send, sockets_[0], sum);
    for (const int one : sockets_) {
      whole(recv, one, others);
      if (rank_ > 0) sum = others;
      for (std::size_t i = 0; rank_ == 0 && i < sum.size(); ++i) sum[i] += others[i];
    }
    for (const int one : sockets_)
      if (rank_ == 0) whole(send, one, sum);
  }

 private:
  void accept_all(const sockaddr* at, int world) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, at, sizeof(sockaddr_in)) != 0 || listen(listener, world) != 0)
      throw std::runtime_error("the port of MASTER_PORT is taken");
    for (int other = 1; other < world; ++other) {
      pollfd waits{.fd = listener, .events = POLLIN, .revents = 0};
      constexpr int kMilliseconds = 30000;  // as long as the others try to connect
      if (poll(&waits, 1, kMilliseconds) != 1) throw std::runtime_error("a rank does not come to MASTER_PORT");
      sockets_.push_back(accept(listener, nullptr, nullptr));
      if (sockets_.back() < 0) throw std::runtime_error("a rank that came to MASTER_PORT has gone");
    }
    close(listener);
  }
  void connect_to(const sockaddr* at) {
    for (int attempt = 0; attempt < 3000; ++attempt) {  // rank 0 may start later
      sockets_ = {socket(AF_INET, SOCK_STREAM, 0)};
      if (connect(sockets_[0], at, sizeof(sockaddr_in)) == 0) return;
      close(sockets_[0]);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    throw std::runtime_error("rank 0 does not listen at MASTER_PORT");
  }
  static void whole(auto transfer, int socket, std::vector<double>& values) {
    auto* bytes = reinterpret_cast<char*>(values.data());
    for (std::size_t left = values.size() * sizeof(double); left > 0;) {
      const ssize_t moved = transfer(socket, bytes, left, MSG_NOSIGNAL);
      if (moved <= 0) throw std::runtime_error("another rank has ended");
      bytes += moved;
      left -= static_cast<std::size_t>(moved);
    }
  }

  int rank_;
  std::vector<int> sockets_;  // of rank 0 one to each other rank, of others one to rank 0
};

// ---- the model: rows do not see each other, so a step's micro-batches do not show

struct Layer {
  std::int64_t in = 0, out = 0;  // 0: a relu
  Tensor* weight = nullptr;
  Tensor* bias = nullptr;
  std::vector<double> weight_gradient{}, bias_gradient{};
};

std::vector<double> forward(const Layer& layer, const std::vector<double>& x) {
  std::vector<double> y = x;
  if (layer.in == 0) {
    for (double& value : y) value = std::max(value, 0.0);
    return y;
  }
  y.assign(static_cast<std::size_t>(layer.out), 0);
  for (std::size_t o = 0; o < y.size(); ++o) {
    if (layer.bias != nullptr) y[o] = layer.bias->values[o];
    for (std::size_t i = 0; i < x.size(); ++i)
      y[o] += static_cast<double>(layer.weight->values[o * x.size() + i]) * x[i];
  }
  return y;
}

// Adds to the layer's gradients, and returns that of its input.
std::vector<double> backward(Layer& layer, const std::vector<double>& x, const std::vector<double>& of_output) {
  std::vector<double> of_input(x.size());
  if (layer.in == 0) {
    for (std::size_t i = 0; i < x.size(); ++i) of_input[i] = x[i] > 0 ? of_output[i] : 0;
    return of_input;
  }
  for (std::size_t o = 0; o < of_output.size(); ++o) {
    if (layer.bias != nullptr) layer.bias_gradient[o] += of_output[o];
    for (std::size_t i = 0; i < x.size(); ++i) {
      layer.weight_gradient[o * x.size() + i] += of_output[o] * x[i];
      of_input[i] += of_output[o] * static_cast<double>(layer.weight->values[o * x.size() + i]);
    }
  }
  return of_input;
}

// Of cross entropy: the loss, and in place of the row's outputs their gradients.
double loss_of(std::vector<double>& outputs, std::size_t label) {
  const double largest = *std::ranges::max_element(outputs);
  double sum = 0;
  for (double& value : outputs) sum += value = std::exp(value - largest);
  for (double& value : outputs) value /= sum;
  const double loss = -std::log(outputs[label]);
  outputs[label] -= 1;
  return loss;
}

class Training {
 public:
  Training()
      : file_(environment("PLUMBLINE_SPEC")),
        rank_(std::stoi(environment("RANK"))),
        spec_(toml::parse_file(file_.string())),
        weights_(load(file_.parent_path() / at("files.weights").value_or(""))),
        batches_(load(file_.parent_path() / at("files.batches").value_or(""))) {
    for (const char* axis : {"parallel.pipeline", "parallel.tensor"})
      if (at(axis).value_or(1) > 1) throw Unsupported(std::string(axis) + " > 1: this program has data ranks");
    require("run.dtype", "float32");
    require("run.device", "cpu");
    if (number("run.global_batch") % at("parallel.data").value_or(std::int64_t{1}) != 0)
      throw std::runtime_error("run.global_batch is no multiple of parallel.data");
    require("loss.type", "cross_entropy");
    require("optimizer.type", "sgd");
    for (const toml::node& layer : *at("model.layer").as_array()) add_layer(*layer.as_table());
    require_known(spec_, "");
  }

  void train() {
    const auto world = number("parallel.data");
    const Ranks ranks(rank_, static_cast<int>(world));
    for (std::int64_t step = 0; step < number("run.steps"); ++step) {
      const std::string of_step = "step" + std::to_string(step) + "/", before = of_step + "before/";
      for (const auto& [name, tensor] : weights_) record_[before + name] = tensor;
      record_[of_step + "loss"] = {{}, {static_cast<float>(forward_backward(step))}, {}};
      for (Layer& layer : layers_)
        for (auto [tensor, gradient] :
             {std::pair(layer.weight, &layer.weight_gradient), {layer.bias, &layer.bias_gradient}})
          if (tensor != nullptr) update(*tensor, *gradient, ranks, of_step, static_cast<double>(world));
    }
  }

  void write() const {
    const json metadata{{"protocol", "1"}, {"framework", "C++"},
                        {"version", "1"},  {"rank", std::to_string(rank_)},
                        {"pipeline", "0"}, {"data", std::to_string(rank_)},
                        {"tensor", "0"},   {"steps", std::to_string(number("run.steps"))}};
    save(fs::path(environment("PLUMBLINE_RECORD")) / ("rank" + std::to_string(rank_) + ".safetensors"), record_,
         metadata);
  }

 private:
  [[nodiscard]] toml::node_view<const toml::node> at(const std::string& path) const { return spec_.at_path(path); }
  [[nodiscard]] std::int64_t number(const std::string& path) const { return at(path).value_or(std::int64_t{0}); }
  void require(const std::string& path, const std::string& known) const {
    if (const std::string value = at(path).value_or(""); value != known)
      throw Unsupported(path + " " + value + ": this program has " + known);
  }

  void add_layer(const toml::table& layer) {
    const std::string number = std::to_string(layers_.size()), type = layer["type"].value_or("");
    if (type == "relu") return layers_.emplace_back(), void();
    if (type != "linear") throw Unsupported("layer " + type + ": this program has linear, relu");
    Layer& made = layers_.emplace_back(
        Layer{.in = layer["in"].value_or(std::int64_t{0}), .out = layer["out"].value_or(std::int64_t{0})});
    made.weight = &weights_.at(number + ".weight");
    if (layer["bias"].value_or(true)) made.bias = &weights_.at(number + ".bias");
    names_[made.weight] = number + ".weight";
    names_[made.bias] = number + ".bias";
  }

  // The mean loss of this rank's rows in a step; leaves the sum of their gradients in the layers.
  double forward_backward(std::int64_t step) {
    for (Layer& layer : layers_)
      if (layer.in > 0) {
        layer.weight_gradient.assign(layer.weight->values.size(), 0);
        layer.bias_gradient.assign(static_cast<std::size_t>(layer.out), 0);
      }
    rows_ = number("run.global_batch") / number("parallel.data");
    double loss = 0;
    const std::int64_t batches = number("run.accumulation");
    for (std::int64_t batch = step * batches; batch < (step + 1) * batches; ++batch)
      for (std::int64_t row = rank_ * rows_; row < (rank_ + 1) * rows_; ++row)
        loss += of_row(static_cast<std::size_t>(batch * number("run.global_batch") + row));
    rows_ *= batches;
    return loss / static_cast<double>(rows_);
  }
  double of_row(std::size_t row) {
    const Tensor& x = batches_.at("x");
    const auto features = static_cast<std::ptrdiff_t>(x.shape.back());
    const auto first = x.values.begin() + static_cast<std::ptrdiff_t>(row) * features;
    std::vector<std::vector<double>> outputs{{first, first + features}};
    for (const Layer& layer : layers_) outputs.push_back(forward(layer, outputs.back()));
    const double loss = loss_of(outputs.back(), static_cast<std::size_t>(batches_.at("y").labels[row]));
    std::vector<double> gradient = outputs.back();
    for (std::size_t layer = layers_.size(); layer-- > 0;)
      gradient = backward(layers_[layer], outputs[layer], gradient);
    return loss;
  }

  // The mean over the ranks' rows, and torch.optim.SGD's step with it.
  void update(Tensor& tensor, std::vector<double>& gradient, const Ranks& ranks, const std::string& of_step,
              double world) {
    ranks.add_up(gradient);
    const auto setting = [&](const char* name) { return at(std::string("optimizer.") + name).value_or(0.0); };
    const double momentum = setting("momentum");
    std::vector<double>& buffer = buffers_[&tensor];
    const bool is_first = buffer.empty();
    buffer.resize(gradient.size());
    Tensor mean{tensor.shape, {}, {}};
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double value = tensor.values[i];
      mean.values.push_back(static_cast<float>(gradient[i] / (world * static_cast<double>(rows_))));
      const double g = static_cast<double>(mean.values.back()) + setting("weight_decay") * value;
      buffer[i] = is_first ? g : momentum * buffer[i] + g;
      const double change = at("optimizer.nesterov").value_or(false) ? g + momentum * buffer[i] : buffer[i];
      tensor.values[i] = static_cast<float>(value - setting("lr") * (momentum == 0 ? g : change));
    }
    record_[of_step + "grad/" + names_.at(&tensor)] = mean;
    record_[of_step + "after/" + names_.at(&tensor)] = tensor;
  }

  fs::path file_;
  int rank_;
  toml::table spec_;
  std::map<std::string, Tensor> weights_, batches_, record_;
  std::map<const Tensor*, std::string> names_;
  std::map<const Tensor*, std::vector<double>> buffers_;  // of momentum
  std::vector<Layer> layers_;
  std::int64_t rows_ = 0;  // of this rank in a step
};

}  // namespace

int main() {
  try {
    Training training;
    training.train();
    training.write();
  } catch (const Unsupported& reason) {
    std::fprintf(stderr, "%s\n", reason.what());
    return 77;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "job_mlp: %s\n", problem.what());
    return 2;
  }
}
