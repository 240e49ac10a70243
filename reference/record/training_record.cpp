#include "reference/record/training_record.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::job {
namespace {

constexpr std::array<std::string_view, 6> kMoments{"before", "grad", "after", "local_grad", "updated", "seen"};
constexpr std::array<std::string_view, 2> kActivations{"activation", "activation_grad"};
constexpr int kMostDimensions = 8;
constexpr std::array<std::string_view, 4> kNumbers{"loss", "scale", "skipped", "weight"};

std::string tensor_name(int step, Moment moment, std::string_view parameter) {
  return fmt::format("step{}/{}/{}", step, name_of(moment), parameter);
}

std::optional<int> natural(std::string_view digits) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  return value;
}

// The pieces of "step3/grad/0.weight@1": 3, "grad", "0.weight". Numbers have no parameter.
struct NameParts {
  std::optional<int> step;
  std::string_view kind;
  std::string_view parameter;
};

NameParts parts_of(std::string_view name) {
  NameParts parts;
  const auto slash = name.find('/');
  if (slash == std::string_view::npos || !name.starts_with("step")) return parts;
  parts.step = natural(name.substr(4, slash - 4));
  parts.kind = name.substr(slash + 1);
  const auto second = parts.kind.find('/');
  if (second == std::string_view::npos) return parts;
  parts.parameter = parts.kind.substr(second + 1);
  parts.parameter = parts.parameter.substr(0, parts.parameter.find('@'));
  parts.kind = parts.kind.substr(0, second);
  return parts;
}

// Whether a reader looks for this name: without zeros before the step, and with a dimension after '@' alone.
bool is_spelled(std::string_view name, int step) {
  const auto at = name.find('@');
  if (!name.starts_with(fmt::format("step{}/", step))) return false;
  return at == std::string_view::npos || name.substr(at) == "@flat" ||
         (at + 2 == name.size() && name.back() >= '0' && name.back() < '0' + kMostDimensions);
}

bool is_activation(std::string_view kind) { return std::ranges::find(kActivations, kind) != kActivations.end(); }

// Of "2/0": a layer, and a micro-batch.
std::optional<std::pair<int, int>> layer_and_micro_batch(std::string_view place) {
  const auto slash = place.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto layer = natural(place.substr(0, slash)), micro_batch = natural(place.substr(slash + 1));
  if (!layer || !micro_batch || place != fmt::format("{}/{}", *layer, *micro_batch)) return std::nullopt;
  return std::pair(*layer, *micro_batch);
}

std::string tensor_name(const ActivationPlace& place, std::optional<int> dim) {
  return fmt::format("step{}/{}{}", place.step, name_of(place), dim ? fmt::format("@{}", *dim) : "");
}

// What a program may have called its record.
std::string what_is_in(const std::filesystem::path& folder) {
  constexpr std::size_t kMost = 5;
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    names.insert(entry.path().filename().string());
  if (error) return "; its folder is not there";
  if (names.empty()) return "; its folder is empty";
  const auto end = std::next(names.begin(), static_cast<std::ptrdiff_t>(std::min(names.size(), kMost)));
  return fmt::format("; its folder has {}{}", fmt::join(names.begin(), end, ", "), names.size() > kMost ? ", …" : "");
}

// What is cut in parts along `dim`: of a flat part all elements.
Shape cut_shape(const Shape& shape, int dim) { return dim == kMostDimensions ? Shape{elements_of(shape)} : shape; }
std::size_t cut_axis(int dim) { return dim == kMostDimensions ? 0 : static_cast<std::size_t>(dim); }

// Whether `shape` can be a part of `whole` along `dim` (-1: must be all of it).
bool fits(const Shape& shape, const Shape& whole, int dim) {
  if (dim < 0) return shape == whole;
  if (dim == kMostDimensions) return shape.size() == 1 && shape.front() <= elements_of(whole);
  Shape rest = shape;
  if (rest.size() != whole.size()) return false;
  rest[static_cast<std::size_t>(dim)] = whole[static_cast<std::size_t>(dim)];
  return rest == whole;
}

}  // namespace

std::string_view name_of(Moment moment) { return kMoments[static_cast<std::size_t>(moment)]; }

std::string_view name_of(Direction direction) { return kActivations[static_cast<std::size_t>(direction)]; }
std::string name_of(const ActivationPlace& place) {
  return fmt::format("{}/{}/{}", name_of(place.direction), place.layer, place.micro_batch);
}

bool has_push_sum(const RunSpec& spec) { return spec.averaging && spec.averaging->algorithm == "sgp"; }

bool has_moment(const RunSpec& spec, Moment moment) {
  if (moment == Moment::updated) return spec.averaging.has_value();
  if (moment == Moment::local_grad) return !spec.averaging;  // nothing is reduced
  if (moment == Moment::seen) return has_push_sum(spec);
  return true;
}
bool has_moment(const RunSpec& spec, Moment moment, const Parameter& parameter) {
  const bool is_gradient = moment == Moment::grad || moment == Moment::local_grad;
  return has_moment(spec, moment) && (trains(spec, parameter) || !is_gradient);
}
bool needs_moment(const RunSpec& spec, Moment moment) {
  return moment != Moment::local_grad && has_moment(spec, moment);
}

std::filesystem::path record_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank{}.safetensors", rank);
}

RecordWriter::RecordWriter(const RunSpec& spec, int rank, std::string framework, std::string version) : rank_(rank) {
  const Coordinates at = coordinates_of(spec.parallel, rank);
  writer_.metadata("protocol", std::to_string(RunSpec::kProtocol));
  writer_.metadata("framework", std::move(framework));
  writer_.metadata("version", std::move(version));
  writer_.metadata("rank", std::to_string(rank));
  writer_.metadata("pipeline", std::to_string(at.pipeline));
  writer_.metadata("data", std::to_string(at.data));
  writer_.metadata("tensor", std::to_string(at.tensor));
  writer_.metadata("steps", std::to_string(spec.run.steps));
}

void RecordWriter::add(int step, Moment moment, const Parameter& parameter, std::span<const float> values) {
  writer_.add<float>(tensor_name(step, moment, parameter.name), parameter.shape, values);
}

void RecordWriter::add(const ActivationPlace& place, std::optional<int> dim, const Shape& shape,
                       std::span<const float> values) {
  writer_.add<float>(tensor_name(place, dim), shape, values);
}

void RecordWriter::add_loss(int step, float loss) {
  writer_.add<float>(fmt::format("step{}/loss", step), {}, std::span(&loss, 1));
}

void RecordWriter::add_scale(int step, float scale) {
  writer_.add<float>(fmt::format("step{}/scale", step), {}, std::span(&scale, 1));
}

void RecordWriter::add_skipped(int step, bool skipped) {
  const std::uint8_t value = skipped ? 1 : 0;
  writer_.add<std::uint8_t>(fmt::format("step{}/skipped", step), {}, std::span(&value, 1));
}

void RecordWriter::add_weight(int step, float weight) {
  writer_.add<float>(fmt::format("step{}/weight", step), {}, std::span(&weight, 1));
}

void RecordWriter::write(const std::filesystem::path& folder) const { writer_.write(record_file(folder, rank_)); }

std::string TrainingRecord::Form::name(const std::string& parameter) const {
  if (dim == kFlat) return parameter + "@flat";
  return dim < 0 ? parameter : fmt::format("{}@{}", parameter, dim);
}

TrainingRecord::TrainingRecord(const RunSpec& spec, const std::filesystem::path& folder)
    : spec_(spec), parameters_(parameters_of(spec)), files_(static_cast<std::size_t>(spec.parallel.world())) {
  open(folder);
  for (int rank = 0; rank < spec_.parallel.world(); ++rank) {
    if (!files_[static_cast<std::size_t>(rank)]) continue;
    check_metadata(rank);
    check_names(rank);
    check_numbers(rank);
  }
  for (const Parameter& parameter : parameters_) check_parameter(parameter);
}

void TrainingRecord::open(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("rank") || !name.ends_with(".safetensors")) continue;
    const auto rank = natural(std::string_view(name).substr(4, name.size() - 4 - 12));
    if (rank && *rank >= spec_.parallel.world())
      find(*rank, -1, "", fmt::format("'{}' exists, but the world has {} ranks", name, spec_.parallel.world()));
  }
  for (int rank = 0; rank < spec_.parallel.world(); ++rank) {
    try {
      files_[static_cast<std::size_t>(rank)].emplace(record_file(folder, rank));
    } catch (const NotFound& failure) {
      find(rank, -1, "", failure.what() + what_is_in(folder));
    } catch (const Error& failure) {
      find(rank, -1, "", failure.what());
    }
  }
}

void TrainingRecord::check_metadata(int rank) {
  const auto& metadata = files_[static_cast<std::size_t>(rank)]->metadata();
  const Coordinates at = coordinates_of(spec_.parallel, rank);
  const std::pair<const char*, int> numbers[] = {{"protocol", RunSpec::kProtocol},
                                                 {"rank", rank},
                                                 {"pipeline", at.pipeline},
                                                 {"data", at.data},
                                                 {"tensor", at.tensor},
                                                 {"steps", spec_.run.steps}};
  for (const auto& [key, value] : numbers) {
    const auto found = metadata.find(key);
    if (found == metadata.end())
      find(rank, -1, key, "is missing in the metadata");
    else if (found->second != std::to_string(value))
      find(rank, -1, key, fmt::format("is '{}' in the metadata; it must be '{}'", found->second, value));
  }
  for (const char* key : {"framework", "version"})
    if (!metadata.contains(key)) find(rank, -1, key, "is missing in the metadata");
}

void TrainingRecord::check_names(int rank) {
  const auto [pipeline, data, tensor] = coordinates_of(spec_.parallel, rank);
  for (const auto& [name, info] : files_[static_cast<std::size_t>(rank)]->tensors()) {
    const NameParts parts = parts_of(name);
    const int step = parts.step.value_or(-1);
    if (step < spec_.first_step() || step >= spec_.end_step()) {
      find(rank, -1, name, fmt::format("is of no step of the run, {} to {}", spec_.first_step(), spec_.end_step() - 1));
      continue;
    }
    if (!is_spelled(name, step)) {
      find(rank, step, name,
           fmt::format("is no tensor's name: it must start with step{}/, and may end with @<dim>, 0 to {}, or @flat",
                       step, kMostDimensions - 1));
      continue;
    }
    const bool is_number = parts.parameter.empty() && std::ranges::find(kNumbers, parts.kind) != kNumbers.end();
    if (is_number) continue;
    if (is_activation(parts.kind)) {
      check_activation(rank, step, name, parts.parameter);
      continue;
    }
    const auto parameter = std::ranges::find(parameters_, parts.parameter, &Parameter::name);
    const auto moment = std::ranges::find(kAllMoments, parts.kind, [](Moment one) { return name_of(one); });
    if (parameter == parameters_.end() || moment == kAllMoments.end() || !has_moment(spec_, *moment)) {
      find(rank, step, name, "is nothing that a record has");
      continue;
    }
    if (!has_moment(spec_, *moment, *parameter)) find(rank, step, name, "is of a parameter that is frozen");
    const std::vector<int> holders = holders_of(spec_, *parameter);
    if (std::ranges::find(holders, pipeline) == holders.end())
      find(rank, step, name, fmt::format("is of a parameter that pipeline rank {} does not hold", pipeline));
    else if (!is_on_data_rank(spec_, *parameter, data))
      find(rank, step, name,
           fmt::format("is of an expert that expert rank {} does not hold", data % spec_.parallel.expert));
  }
}

void TrainingRecord::check_activation(int rank, int step, const std::string& name, std::string_view place) {
  const auto found = layer_and_micro_batch(place);
  const int parts = spec_.run.micro_batches * spec_.run.accumulation;
  const int pipeline = coordinates_of(spec_.parallel, rank).pipeline;
  const TensorInfo* info = file(rank)->find(name);
  const std::string whole = name.substr(0, name.find('@'));
  if (!found)
    find(rank, step, name, "is of no layer and micro-batch, such as 0/0");
  else if (found->first >= static_cast<int>(spec_.layers.size()))
    find(rank, step, name, fmt::format("is of no layer of the run, 0 to {}", spec_.layers.size() - 1));
  else if (found->second >= parts)
    find(rank, step, name, fmt::format("is of no micro-batch of a rank's step, 0 to {}", parts - 1));
  else if (pipeline_rank_of_stage(spec_, stage_of_layer(spec_, found->first)) != pipeline)
    find(rank, step, name, fmt::format("is of a layer that pipeline rank {} does not hold", pipeline));
  else if (name.ends_with("@flat"))
    find(rank, step, name, "is a part of the elements; it must be whole or a part along a dimension");
  else if (info->dtype != comm::DType::f32)
    find(rank, step, name, fmt::format("is {}; it must be F32", info->type));
  else if (const std::string first = first_form(rank, whole); first != name)
    find(rank, step, name, fmt::format("is recorded as '{}', too; it must have one form", first));
}

void TrainingRecord::check_numbers(int rank) {
  const bool has_loss = coordinates_of(spec_.parallel, rank).pipeline == last_pipeline_rank(spec_);
  for (int step = spec_.first_step(); step < spec_.end_step(); ++step) {
    if (has_loss) check_tensor(rank, step, fmt::format("step{}/loss", step), comm::DType::f32, {});
    if (has_push_sum(spec_)) check_tensor(rank, step, fmt::format("step{}/weight", step), comm::DType::f32, {});
    if (!spec_.scaler) continue;
    check_tensor(rank, step, fmt::format("step{}/scale", step), comm::DType::f32, {});
    check_tensor(rank, step, fmt::format("step{}/skipped", step), comm::DType::u8, {});
  }
}

bool TrainingRecord::check_tensor(int rank, int step, const std::string& name, comm::DType dtype, const Shape& shape,
                                  int dim) {
  const TensorInfo* info = files_[static_cast<std::size_t>(rank)]->find(name);
  if (info == nullptr) {
    find(rank, step, name, "is missing");
    return false;
  }
  if (info->dtype == dtype && fits(info->shape, shape, dim)) return true;
  find(rank, step, name,
       fmt::format("is {} {}; it must be {} {}{}", info->type, text_of(info->shape), safetensors_name(dtype),
                   dim < 0                  ? ""
                   : dim == kMostDimensions ? "a part of the elements of "
                                            : fmt::format("a part along dimension {} of ", dim),
                   text_of(shape)));
  return false;
}

void TrainingRecord::check_parameter(const Parameter& parameter) {
  std::optional<Form> first;
  for (const Cell& cell : cells_of(parameter)) {
    const std::optional<Form> form = form_of(cell, parameter, Moment::before);
    if (!first) first = form;
    if (form && *form != *first)
      find(cell.ranks.front(), -1, form->name(parameter.name),
           fmt::format("is '{}' elsewhere; all data replicas hold a parameter in the same form",
                       first->name(parameter.name)));
    for (int step = spec_.first_step(); step < spec_.end_step(); ++step)
      for (const Moment moment : kAllMoments)
        if (has_moment(spec_, moment, parameter))
          check_value(cell, has_parts(moment) ? form.value_or(Form{}) : Form{}, step, moment, parameter);
  }
}

void TrainingRecord::check_value(const Cell& cell, Form form, int step, Moment moment, const Parameter& parameter) {
  const std::string name = tensor_name(step, moment, form.name(parameter.name));
  std::int64_t along = 0;
  bool all_there = true;
  for (const int rank : cell.ranks) {
    const bool absent = !file(rank) || (!needs_moment(spec_, moment) && file(rank)->find(name) == nullptr);
    check_other_forms(rank, step, tensor_name(step, moment, parameter.name), name);
    const bool good = !absent && check_tensor(rank, step, name, comm::DType::f32, parameter.shape, form.dim);
    all_there &= good;
    if (good && form.dim >= 0) along += file(rank)->find(name)->shape[cut_axis(form.dim)];
  }
  if (all_there && form.dim >= 0 && along != cut_shape(parameter.shape, form.dim)[cut_axis(form.dim)])
    find(cell.ranks.front(), step, name,
         fmt::format("has parts that make {} of {}; the whole is {}", along,
                     form.dim == Form::kFlat ? "the elements" : fmt::format("dimension {}", form.dim),
                     text_of(parameter.shape)));
}

// A value in another form than the parameter's would be read by nobody.
void TrainingRecord::check_other_forms(int rank, int step, const std::string& whole, const std::string& name) {
  for (int dim = -1; file(rank) && dim <= Form::kFlat; ++dim)
    if (const std::string other = Form{dim}.name(whole); other != name && file(rank)->find(other) != nullptr)
      find(rank, step, other, fmt::format("is in another form than the parameter's, '{}'", name));
}

// The first of the names of a value that a rank recorded, whole or as a part; empty for none.
std::string TrainingRecord::first_form(int rank, const std::string& whole) const {
  for (int dim = -1; dim < kMostDimensions; ++dim)
    if (std::string name = Form{dim}.name(whole); file(rank)->find(name) != nullptr) return name;
  return "";
}

void TrainingRecord::find(int rank, int step, std::string tensor, std::string what) {
  findings_.push_back({rank, step, std::move(tensor), std::move(what)});
}

const std::optional<SafetensorsReader>& TrainingRecord::file(int rank) const {
  return files_[static_cast<std::size_t>(rank)];
}

std::vector<TrainingRecord::Cell> TrainingRecord::cells_of(const Parameter& parameter) const {
  std::vector<Cell> cells;
  for (const int pipeline : holders_of(spec_, parameter))
    for (int first = 0; first < spec_.parallel.data; first += spec_.parallel.shard) {
      if (!is_on_data_rank(spec_, parameter, first)) continue;
      Cell cell{.data = first, .ranks = {}};
      for (int data = first; data < first + spec_.parallel.shard; ++data)
        for (int tensor = 0; tensor < spec_.parallel.tensor; ++tensor)
          cell.ranks.push_back(rank_of(spec_.parallel, {pipeline, data, tensor}));
      cells.push_back(std::move(cell));
    }
  return cells;
}

// Before its reduction each data rank has all of a gradient.
bool TrainingRecord::has_parts(Moment moment) const {
  return spec_.parallel.shard == 1 || moment != Moment::local_grad;
}

// The form in which the first value that any member wrote has come.
std::optional<TrainingRecord::Form> TrainingRecord::form_of(const Cell& cell, const Parameter& parameter,
                                                            Moment moment) const {
  if (!has_parts(moment)) return Form{};
  const int dims = static_cast<int>(parameter.shape.size());
  std::vector<int> forms(static_cast<std::size_t>(dims + 1));
  std::iota(forms.begin(), forms.end(), -1);
  if (spec_.parallel.shard > 1) forms.push_back(Form::kFlat);
  for (const int rank : cell.ranks)
    for (int step = spec_.first_step(); file(rank) && step < spec_.end_step(); ++step)
      for (const Moment one : kAllMoments)
        for (const int dim : forms)
          if (has_parts(one) && file(rank)->find(tensor_name(step, one, Form{dim}.name(parameter.name))))
            return Form{dim};
  return std::nullopt;
}

std::optional<std::vector<float>> TrainingRecord::plain(int rank, const std::string& name, const Shape& shape) const {
  const TensorInfo* info = file(rank) ? file(rank)->find(name) : nullptr;
  if (info == nullptr || info->dtype != comm::DType::f32 || info->shape != shape) return std::nullopt;
  return file(rank)->read<float>(name);
}

std::optional<std::vector<float>> TrainingRecord::joined(const Cell& cell, int dim, const std::string& name,
                                                         const Shape& whole_shape) const {
  const std::size_t axis = cut_axis(dim);
  const Shape shape = cut_shape(whole_shape, dim);
  const auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  const std::int64_t inner = elements_of({at + 1, shape.end()});
  const std::int64_t outer = elements_of({shape.begin(), at});
  std::vector<float> whole(static_cast<std::size_t>(elements_of(shape)));
  std::int64_t begin = 0;  // along the dimension
  for (const int rank : cell.ranks) {
    const TensorInfo* info = file(rank) ? file(rank)->find(name) : nullptr;
    if (info == nullptr || info->dtype != comm::DType::f32 || !fits(info->shape, whole_shape, dim)) return std::nullopt;
    const std::int64_t size = info->shape[axis];
    if (size > shape[axis] - begin) return std::nullopt;
    const std::vector<float> part = file(rank)->read<float>(name);
    for (std::int64_t row = 0; row < outer; ++row)
      std::copy_n(part.begin() + row * size * inner, size * inner, whole.begin() + (row * shape[axis] + begin) * inner);
    begin += size;
  }
  if (begin != shape[axis]) return std::nullopt;
  return whole;
}

std::vector<Copy> TrainingRecord::copies(int step, Moment moment, const Parameter& parameter) const {
  std::vector<Copy> list;
  for (const Cell& cell : cells_of(parameter)) {
    const std::optional<Form> form = form_of(cell, parameter, moment);
    if (!form) continue;
    const std::string name = tensor_name(step, moment, form->name(parameter.name));
    if (form->dim >= 0) {
      if (auto values = joined(cell, form->dim, name, parameter.shape))
        list.push_back({cell.ranks.front(), cell.data, cell.ranks, std::move(*values)});
      continue;
    }
    for (const int rank : cell.ranks)
      if (auto values = plain(rank, name, parameter.shape))
        list.push_back({rank, coordinates_of(spec_.parallel, rank).data, {rank}, std::move(*values)});
  }
  std::ranges::sort(list, {}, &Copy::rank);
  return list;
}

bool TrainingRecord::has_activations() const {
  return std::ranges::any_of(files_, [](const std::optional<SafetensorsReader>& file) {
    return file && std::ranges::any_of(file->tensors(),
                                       [](const auto& tensor) { return is_activation(parts_of(tensor.first).kind); });
  });
}

std::vector<Activation> TrainingRecord::activations(const ActivationPlace& place) const {
  std::vector<Activation> list;
  for (int rank = 0; rank < spec_.parallel.world(); ++rank) {
    if (!file(rank)) continue;
    for (int dim = -1; dim < kMostDimensions; ++dim) {
      const std::optional<int> along = dim < 0 ? std::nullopt : std::optional(dim);
      const std::string name = tensor_name(place, along);
      const TensorInfo* info = file(rank)->find(name);
      if (info == nullptr || info->dtype != comm::DType::f32) continue;
      list.push_back({rank, along, info->shape, file(rank)->read<float>(name)});
      break;
    }
  }
  return list;
}

template <class T>
std::vector<RankNumber> TrainingRecord::numbers(int step, std::string_view name, bool last_stage_only) const {
  std::vector<RankNumber> list;
  const std::string tensor = fmt::format("step{}/{}", step, name);
  for (int rank = 0; rank < spec_.parallel.world(); ++rank) {
    const Coordinates at = coordinates_of(spec_.parallel, rank);
    const TensorInfo* info = file(rank) ? file(rank)->find(tensor) : nullptr;
    if (info == nullptr || info->dtype != kDTypeOf<T> || !info->shape.empty()) continue;
    if (last_stage_only && at.pipeline != last_pipeline_rank(spec_)) continue;
    list.push_back({rank, at.data, static_cast<float>(file(rank)->read<T>(tensor).front())});
  }
  return list;
}

std::vector<RankNumber> TrainingRecord::losses(int step) const { return numbers<float>(step, "loss", true); }
std::vector<RankNumber> TrainingRecord::weights(int step) const { return numbers<float>(step, "weight", false); }
std::vector<RankNumber> TrainingRecord::scales(int step) const { return numbers<float>(step, "scale", false); }
std::vector<RankNumber> TrainingRecord::skipped(int step) const {
  return numbers<std::uint8_t>(step, "skipped", false);
}

}  // namespace plumbline::job
