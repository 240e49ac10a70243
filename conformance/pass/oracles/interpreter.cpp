#include "conformance/pass/oracles/interpreter.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/fnv1a.hpp"

namespace plumbline::program {

using comm::DType;

namespace {

// ---- types ----

// As what a variable is communicated.
DType communicated(DataType type, bool in_double) {
  switch (type) {
    case DataType::f16:
      return in_double ? DType::f64 : DType::f16;
    case DataType::bf16:
      return in_double ? DType::f64 : DType::bf16;
    case DataType::f32:
    case DataType::c64:
      return in_double ? DType::f64 : DType::f32;
    case DataType::f64:
    case DataType::c128:
      return DType::f64;
    case DataType::boolean:
    case DataType::i32:
      return DType::i32;
    default:
      return DType::i64;
  }
}

template <class T>
T whole(double value) {
  return std::isfinite(value) ? static_cast<T>(value) : T{0};
}

// The number that an element of a type is in which it is kept.
double rounded(double value, DType type) {
  if (comm::is_floating(type)) return comm::rounded_to(type, value);
  return type == DType::i32 ? whole<std::int32_t>(value) : static_cast<double>(whole<std::int64_t>(value));
}

// Where the members of a fused variable begin, given their elements, and after the last one where the whole ends.
// `alignment` in elements.
std::vector<std::int64_t> places_of(const std::vector<std::int64_t>& elements, std::int64_t alignment) {
  std::vector<std::int64_t> places{0};
  for (const std::int64_t count : elements)
    places.push_back(places.back() + (count + alignment - 1) / alignment * alignment);
  return places;
}

// Elements as bytes of a type, for a communicator.
class Packed {
 public:
  Packed(std::size_t count, DType type) : type_(type), count_(count), bytes_(count * comm::size_of(type)) {}
  Packed(const std::vector<double>& values, DType type) : Packed(values.size(), type) {
    switch (type) {
      case DType::f16:
        put<comm::Float16>(values, [](double v) { return comm::to_float16(static_cast<float>(v)); });
        break;
      case DType::bf16:
        put<comm::BFloat16>(values, [](double v) { return comm::to_bfloat16(static_cast<float>(v)); });
        break;
      case DType::f32:
        put<float>(values, [](double v) { return static_cast<float>(v); });
        break;
      case DType::f64:
        put<double>(values, [](double v) { return v; });
        break;
      case DType::i32:
        put<std::int32_t>(values, whole<std::int32_t>);
        break;
      default:
        put<std::int64_t>(values, whole<std::int64_t>);
        break;
    }
  }
  [[nodiscard]] comm::Buffer buffer() { return {bytes_.data(), static_cast<std::int64_t>(count_), type_, {}}; }
  [[nodiscard]] std::vector<double> values() const {
    switch (type_) {
      case DType::f16:
        return get<comm::Float16>([](comm::Float16 v) { return comm::to_float(v); });
      case DType::bf16:
        return get<comm::BFloat16>([](comm::BFloat16 v) { return comm::to_float(v); });
      case DType::f32:
        return get<float>([](float v) { return v; });
      case DType::f64:
        return get<double>([](double v) { return v; });
      case DType::i32:
        return get<std::int32_t>([](std::int32_t v) { return v; });
      default:
        return get<std::int64_t>([](std::int64_t v) { return static_cast<double>(v); });
    }
  }

 private:
  template <class T, class Convert>
  void put(const std::vector<double>& values, Convert convert) {
    for (std::size_t i = 0; i < count_; ++i) {
      const T value = convert(values[i]);
      std::memcpy(bytes_.data() + i * sizeof(T), &value, sizeof(T));
    }
  }
  template <class T, class Convert>
  [[nodiscard]] std::vector<double> get(Convert convert) const {
    std::vector<double> values(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      T value;
      std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
      values[i] = convert(value);
    }
    return values;
  }

  DType type_;
  std::size_t count_;
  std::vector<std::byte> bytes_;
};

// ---- values that come from outside ----

// What values a variable may have, by the slots in which ops read it.
enum class Kind : std::uint8_t { any, rate, positive, power1, power2, loss_scale, zero };

std::map<std::string, Kind> kinds_of(const Program& program) {
  static const std::map<std::string, Kind, std::less<>> slots{
      {"LearningRate", Kind::rate}, {"Moment2", Kind::positive}, {"Variance", Kind::positive},
      {"Beta1Pow", Kind::power1},   {"Beta2Pow", Kind::power2},  {"PrevLossScaling", Kind::loss_scale},
      {"InGoodSteps", Kind::zero},  {"InBadSteps", Kind::zero},
  };
  std::map<std::string, Kind> kinds;
  for (const Op& op : program.ops)
    for (const auto& [slot, names] : op.inputs)
      if (const auto found = slots.find(slot); found != slots.end())
        for (const std::string& name : names) kinds.try_emplace(name, found->second);
  return kinds;
}

class MadeUp {
 public:
  MadeUp(std::uint64_t seed, const std::string& name)
      : state_(comm::Fnv1a(seed * 0x9e3779b97f4a7c15ULL + comm::Fnv1a::kStart).add(name).value()) {}
  // SplitMix64, Steele, Lea and Flood 2014.
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
  }
  double value(Kind kind, bool is_whole) {
    const auto steps = static_cast<double>(next() % 1025);
    if (is_whole) return kind == Kind::zero ? 0 : steps;
    switch (kind) {
      case Kind::rate:
        return 0.125;
      case Kind::positive:
        return 0.5 + steps / 1024;
      case Kind::power1:
        return 0.9;
      case Kind::power2:
        return 0.999;
      case Kind::loss_scale:
        return 1024;
      case Kind::zero:
        return 0;
      case Kind::any:
        break;
    }
    return (steps - 512) / 1024;
  }

 private:
  std::uint64_t state_;
};

// ---- memory ----

using Storage = std::shared_ptr<std::vector<double>>;

struct Place {
  Storage storage;
  std::size_t begin = 0, count = 0;
};

class Memory {
 public:
  [[nodiscard]] const Place* find(const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &found->second;
  }
  void put(const std::string& name, Place place) { places_[name] = std::move(place); }
  // Into the memory that the variable has, or into new.
  void write(const std::string& name, const std::vector<double>& values) {
    Place& place = places_[name];
    if (!place.storage || place.count != values.size())
      place = {std::make_shared<std::vector<double>>(values.size()), 0, values.size()};
    std::ranges::copy(values, place.storage->begin() + static_cast<std::ptrdiff_t>(place.begin));
  }
  [[nodiscard]] static std::vector<double> values(const Place& place) {
    const auto begin = place.storage->begin() + static_cast<std::ptrdiff_t>(place.begin);
    return {begin, begin + static_cast<std::ptrdiff_t>(place.count)};
  }
  [[nodiscard]] const std::map<std::string, Place>& places() const { return places_; }

 private:
  std::map<std::string, Place> places_;
};

// ---- execution ----

bool is_all_reduce(const Op& op) { return op.type == "all_reduce" || op.type.starts_with("c_allreduce_"); }

comm::ReduceOp reduction_of(const Op& op) {
  if (op.type == "c_allreduce_avg") return comm::ReduceOp::avg;
  if (op.type == "c_allreduce_max") return comm::ReduceOp::max;
  if (op.type == "c_allreduce_min") return comm::ReduceOp::min;
  if (op.type == "c_allreduce_prod") return comm::ReduceOp::product;
  return op.reduction.value_or(comm::ReduceOp::sum);
}

bool is_message(const Op& op) { return op.type == "send_v2" || op.type == "recv_v2"; }
bool moves_data(const Op& op) { return op.ring && op.type != "c_wait_compute" && op.type != "c_wait_comm"; }

std::set<RingId> rings_in(const Program& program, bool with_messages) {
  std::set<RingId> used;
  for (const Op& op : program.ops)
    if (moves_data(op) && (with_messages || !is_message(op))) used.insert(*op.ring);
  return used;
}

class Rank {
 public:
  Rank(const Program& program, const Rings& rings, comm::Communicator& world, const ExecutionOptions& options)
      : program_(program), world_(world), options_(options), kinds_(kinds_of(program)) {
    for (const RingId ring : rings_in(program, !options.stands_in_for_peers)) join(ring, rings);
  }

  Execution run() {
    for (std::size_t i = 0; i < program_.ops.size(); ++i) {
      position_ = i;
      run(program_.ops[i]);
    }
    Execution result;
    result.gradients = std::move(gradients_);
    for (const auto& [name, place] : memory_.places()) result.variables[name] = Memory::values(place);
    return result;
  }

 private:
  void join(RingId ring, const Rings& rings) {
    const auto found = rings.find(ring);
    if (found == rings.end())
      throw InvalidArgument(fmt::format("the program runs over ring {}, which there is not", ring));
    const std::vector<int>& ranks = found->second;
    for (const int rank : ranks)
      if (rank >= world_.size())
        throw InvalidArgument(
            fmt::format("ring {} is [{}], and there are {} ranks", ring, fmt::join(ranks, ","), world_.size()));
    if (std::ranges::find(ranks, world_.rank()) == ranks.end())
      throw InvalidArgument(fmt::format("rank {} runs over ring {}, [{}], without being in it", world_.rank(), ring,
                                        fmt::join(ranks, ",")));
    groups_.emplace(ring, world_.create_group(ranks));
  }

  void run(const Op& op) {
    if (op.type == "nop" || op.type == "c_wait_compute" || op.type == "c_wait_comm") return;
    if (op.type == "coalesce_tensor") return coalesce(op);
    if (moves_data(op)) return communicate(op);
    calculate(op);
  }

  // ---- variables ----

  [[nodiscard]] const Variable& variable(const std::string& name) const {
    const auto found = program_.variables.find(name);
    if (found == program_.variables.end())
      throw InvalidArgument(fmt::format("op {} names '{}', and there is no such variable", position_, name));
    return found->second;
  }
  [[nodiscard]] DType type_of(const std::string& name) const {
    return communicated(variable(name).dtype, options_.in_double);
  }
  [[nodiscard]] std::size_t declared(const std::string& name) const { return elements_of(variable(name).shape); }

  std::vector<double> made_up(const std::string& name, bool of_rank) const {
    const auto kind = kinds_.find(name);
    const DType type = type_of(name);
    MadeUp source(options_.seed + (of_rank ? 1000003ULL * (static_cast<std::uint64_t>(world_.rank()) + 1) : 0), name);
    std::vector<double> values(declared(name));
    for (double& value : values)
      value = rounded(source.value(kind == kinds_.end() ? Kind::any : kind->second, !comm::is_floating(type)), type);
    return values;
  }

  std::vector<double> read(const std::string& name) {
    if (memory_.find(name) == nullptr) memory_.write(name, made_up(name, !variable(name).persistable));
    return Memory::values(*memory_.find(name));
  }
  void write(const std::string& name, std::vector<double> values) {
    const DType type = type_of(name);
    for (double& value : values) value = rounded(value, type);
    memory_.write(name, values);
  }

  // The variable's shape; a fused one, whose shape nobody knows, is a list.
  Array array_of(const std::string& name) {
    Array array{.shape = variable(name).shape, .elements = read(name)};
    for (std::int64_t& size : array.shape) size = size < 0 ? 1 : size;
    if (elements_of(array.shape) != array.elements.size())
      array.shape = {static_cast<std::int64_t>(array.elements.size())};
    return array;
  }

  // ---- calculation ----

  void calculate(const Op& op) {
    Operands operands{.type = op.type, .inputs = {}, .outputs = {}, .numbers = {}};
    for (const auto& [slot, names] : op.inputs)
      for (const std::string& name : names) operands.inputs[slot].push_back(array_of(name));
    for (const auto& [slot, names] : op.outputs)
      for (const std::string& name : names) operands.outputs[slot].push_back(empty_array_of(name));
    for (const auto& [name, attribute] : op.attributes)
      if (const auto number = number_of(op, name)) operands.numbers[name] = *number;
    keep_gradient(op, operands);
    compute(operands);
    for (const auto& [slot, names] : op.outputs)
      for (std::size_t i = 0; i < names.size(); ++i) write(names[i], std::move(operands.outputs[slot][i].elements));
  }

  Array empty_array_of(const std::string& name) const {
    Array array{.shape = variable(name).shape, .elements = {}};
    for (std::int64_t& size : array.shape) size = size < 0 ? 1 : size;
    const Place* const place = memory_.find(name);
    // A fused variable's shape is not declared.
    if (place != nullptr && array.shape.empty() && place->count != 1)
      array.shape = {static_cast<std::int64_t>(place->count)};
    array.elements.resize(elements_of(array.shape));
    return array;
  }

  void keep_gradient(const Op& op, const Operands& operands) {
    const auto parameter = op.inputs.find("Param");
    const Array* const gradient = operands.in("Grad");
    if (parameter == op.inputs.end() || parameter->second.empty() || gradient == nullptr) return;
    std::vector<double> used = gradient->elements;
    for (double& value : used) value *= operands.number("rescale_grad", 1);
    gradients_[parameter->second.front()] = std::move(used);
  }

  // ---- memory that is made one ----

  void coalesce(const Op& op) {
    const auto outputs = op.outputs.find("Output"), fused = op.outputs.find("FusedOutput"),
               inputs = op.inputs.find("Input");
    if (outputs == op.outputs.end() || fused == op.outputs.end() || fused->second.size() != 1 ||
        outputs->second.empty())
      throw InvalidArgument(fmt::format("op {} (coalesce_tensor) has no Output, or not one FusedOutput", position_));
    const std::vector<std::string>& members = outputs->second;
    std::vector<std::int64_t> elements;
    for (const std::string& name : members) elements.push_back(static_cast<std::int64_t>(declared(name)));
    constexpr std::int64_t kAlignmentBytes = 256;
    const auto bytes = static_cast<std::int64_t>(comm::size_of(communicated(variable(members.front()).dtype, false)));
    const auto places = places_of(elements, is_set(op, "use_align") ? kAlignmentBytes / bytes : 1);
    const auto storage = std::make_shared<std::vector<double>>(static_cast<std::size_t>(places.back()));
    const bool copies = is_set(op, "copy_data") && inputs != op.inputs.end() && inputs->second.size() == members.size();
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto begin = static_cast<std::size_t>(places[i]), count = static_cast<std::size_t>(elements[i]);
      std::vector<double> values(count, std::numeric_limits<double>::quiet_NaN());
      if (copies) values = read(inputs->second[i]);
      values.resize(count);
      memory_.put(members[i], {storage, begin, count});
      memory_.write(members[i], values);
    }
    memory_.put(fused->second.front(), {storage, 0, storage->size()});
  }

  [[nodiscard]] static bool is_set(const Op& op, std::string_view name) {
    const auto found = op.attributes.find(name);
    const bool* const value = found == op.attributes.end() ? nullptr : std::get_if<bool>(&found->second);
    return value != nullptr && *value;
  }

  // ---- communication ----

  void communicate(const Op& op) {
    const std::string in = first_name(op.inputs), out = first_name(op.outputs);
    if (op.type == "send_v2") return send(op, in);
    if (op.type == "recv_v2") return receive(op, out);
    comm::Communicator& group = *groups_.at(*op.ring);
    if (in.empty() || out.empty())
      throw InvalidArgument(fmt::format("op {} ({}) has no input or no output", position_, op.type));
    std::vector<double> values = read(in);
    if (is_all_reduce(op)) return all_reduce(op, group, in, out);
    Packed packed(values, type_of(in));
    if (op.type == "reduce") {
      // Which rank gets the sum is not stated: the first. Others keep what they have.
      group.reduce(packed.buffer(), packed.buffer(), reduction_of(op), 0);
      return write(out, group.rank() == 0 ? packed.values() : values);
    }
    if (op.type == "all_gather") {
      Packed all(values.size() * static_cast<std::size_t>(group.size()), type_of(in));
      group.all_gather(packed.buffer(), all.buffer());
      return write(out, all.values());
    }
    if (op.type == "broadcast" || op.type == "c_broadcast") {
      group.broadcast(packed.buffer(), 0);
      return write(out, packed.values());
    }
    if (op.type == "c_identity" || op.type == "c_sync_calc_stream" || op.type == "c_sync_comm_stream")
      return write(out, std::move(values));
    throw Unsupported(fmt::format("op {} ({}): this communication is not executed", position_, op.type));
  }

  void all_reduce(const Op& op, comm::Communicator& group, const std::string& in, const std::string& out) {
    const comm::ReduceOp how = reduction_of(op);
    Packed packed(read(in), type_of(in));
    group.all_reduce(packed.buffer(), packed.buffer(), how);
    write(out, packed.values());
  }

  // The other rank of a ring of two.
  [[nodiscard]] int peer(const Op& op, const comm::Communicator& group) const {
    if (group.size() != 2)
      throw InvalidArgument(fmt::format("op {} ({}) runs over ring {} of {} ranks; one message goes between 2",
                                        position_, op.type, *op.ring, group.size()));
    return 1 - group.rank();
  }
  void send(const Op& op, const std::string& in) {
    const std::vector<double> values = read(in);
    if (options_.stands_in_for_peers) return;
    comm::Communicator& group = *groups_.at(*op.ring);
    Packed packed(values, type_of(in));
    group.send(packed.buffer(), peer(op, group));
  }
  void receive(const Op& op, const std::string& out) {
    if (options_.stands_in_for_peers) return write(out, made_up(out, true));
    comm::Communicator& group = *groups_.at(*op.ring);
    Packed packed(declared(out), type_of(out));
    group.recv(packed.buffer(), peer(op, group));
    write(out, packed.values());
  }

  const Program& program_;
  comm::Communicator& world_;
  const ExecutionOptions& options_;
  std::map<std::string, Kind> kinds_;
  std::map<RingId, std::unique_ptr<comm::Communicator>> groups_;
  Memory memory_;
  std::map<std::string, std::vector<double>, std::less<>> gradients_;
  std::size_t position_ = 0;
};

}  // namespace

Execution execute(const Program& program, const Rings& rings, comm::Communicator& world,
                  const ExecutionOptions& options) {
  return Rank(program, rings, world, options).run();
}

// ---- rings ----

namespace {

// The ring's equal that contains the rank, when all of them together are the world; else the rank alone.
std::vector<int> shifted(const std::vector<int>& ranks, int rank, int world_size) {
  if (std::ranges::find(ranks, rank) != ranks.end()) return ranks;
  const int count = static_cast<int>(ranks.size());
  const auto [lowest, highest] = std::ranges::minmax(ranks);
  const int stride = count > 1 ? (highest - lowest) / (count - 1) : 1, block = stride * count;
  const auto is_whole = [&](int first) {
    return std::ranges::all_of(ranks, [&](int one) { return (one - first) % stride == 0; });
  };
  if (stride * (count - 1) != highest - lowest || !is_whole(lowest) || world_size % block != 0 ||
      lowest / block != highest / block || lowest % block >= stride)
    return {rank};
  const int shift = rank / block * block + rank % block % stride - lowest;
  std::vector<int> result;
  for (const int one : ranks) result.push_back(one + shift);
  return result;
}

}  // namespace

Rings rings_of_rank(const Rings& rings, int rank, int world_size) {
  Rings result;
  for (const auto& [ring, ranks] : rings) result[ring] = shifted(ranks, rank, world_size);
  return result;
}

int world_size_of(const Program& program, const Rings& rings) {
  int size = 1;
  std::set<RingId> used = rings_in(program, true);
  used.insert(0);  // the world
  for (const RingId ring : used)
    if (const auto found = rings.find(ring); found != rings.end())
      for (const int rank : found->second) size = std::max(size, rank + 1);
  return size;
}

}  // namespace plumbline::program
