// Plans of PyTorch, Megatron-LM and Paddle, from what those write about them.
#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <map>

#include "reference/bucketing/detail/laying_out.hpp"
#include "reference/bucketing/detail/reading_json.hpp"
#include "reference/bucketing/plan_json.hpp"

namespace plumbline::bucketing {

using nlohmann::json;

namespace {

const Gradient& gradient_at(std::span<const Gradient> gradients, std::int64_t index, const std::string& where) {
  if (index < 0 || index >= static_cast<std::int64_t>(gradients.size()))
    throw InvalidArgument(fmt::format("{} is gradient {}; there are {}", where, index, gradients.size()));
  return gradients[static_cast<std::size_t>(index)];
}

// Members one after the other, whatever type they have: whether they fit is check_plan()'s to say.
void append(Plan& plan, std::span<const int> members, std::span<const Gradient> gradients) {
  Bucket bucket = members.empty() ? Bucket{} : bucket_for(gradients[static_cast<std::size_t>(members.front())]);
  bucket.first_member = static_cast<int>(plan.members.size());
  bucket.members = static_cast<int>(members.size());
  for (const int index : members) {
    const std::int64_t elements = gradients[static_cast<std::size_t>(index)].elements;
    if (elements > std::numeric_limits<std::int64_t>::max() - bucket.elements)
      throw OutOfRange(fmt::format("bucket {} has more elements than 64 bits hold", plan.buckets.size()));
    plan.members.push_back({index, bucket.elements});
    bucket.elements += elements;
  }
  plan.buckets.push_back(bucket);
}

[[nodiscard]] std::int64_t bytes_of(const Bucket& bucket) {
  return bucketing::bytes_of(bucket.elements, bucket.dtype, bucket.components_per_element);
}

// ---- PyTorch: "9 8 7, 3 2" and "167208, 33280" ----

std::vector<std::vector<std::int64_t>> numbers_in(const std::string& text, const std::string& where) {
  std::vector<std::vector<std::int64_t>> rows(1);
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    if (*at == ',') rows.emplace_back();
    if (*at == ',' || *at == ' ') {
      ++at;
      continue;
    }
    std::int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{}) reading::refuse(where, "numbers with blanks and commas between", text);
    rows.back().push_back(number);
    at = next;
  }
  if (rows.back().empty()) rows.pop_back();
  return rows;
}

std::vector<std::int64_t> sizes_in(const reading::Object& object, const char* field) {
  std::vector<std::int64_t> sizes;
  for (const auto& row : numbers_in(object.text(field), object.path(field))) {
    if (row.size() != 1) reading::refuse(object.path(field), "a size a bucket", object.at(field));
    sizes.push_back(row.front());
  }
  return sizes;
}

Plan plan_of_indices(const reading::Object& object, std::span<const Gradient> gradients) {
  const char* field = "rebuilt_per_bucket_param_indices";
  Plan plan;
  for (const auto& row : numbers_in(object.text(field), object.path(field))) {
    std::vector<int> members;
    for (const std::int64_t index : row) {
      (void)gradient_at(gradients, index, object.path(field));
      members.push_back(static_cast<int>(index));
    }
    append(plan, members, gradients);
  }
  return plan;
}

// The members of buckets that were gathered in the order of registration, of which the sizes are known: each begins
// with the first gradient that is in none yet, and ends as soon as it has its size.
std::vector<int> members_of_size(std::int64_t size, std::span<const Gradient> gradients, std::vector<bool>& taken,
                                 const std::string& where) {
  std::vector<int> members;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < gradients.size() && (members.empty() || bytes < size); ++i) {
    if (taken[i]) continue;
    if (!members.empty()) {
      const Gradient& first = gradients[static_cast<std::size_t>(members.front())];
      if (first.sparse) break;
      if (gradients[i].sparse || !mix(gradients[i], first)) continue;
    }
    taken[i] = true;
    members.push_back(static_cast<int>(i));
    bytes += bucketing::bytes_of(gradients[i]);
  }
  if (members.empty() || bytes != size)
    throw InvalidArgument(
        fmt::format("{}: a bucket of {} bytes does not hold whole gradients; {} of them make {} bytes", where, size,
                    members.size(), bytes));
  return members;
}

// Gradients without elements after a bucket that has its size can be its own only where no later bucket has room for
// them.
Plan plan_of_sizes(const reading::Object& object, std::span<const Gradient> gradients) {
  const std::vector<std::int64_t> sizes = sizes_in(object, "bucket_sizes");
  std::vector<bool> taken(gradients.size());
  std::vector<std::vector<int>> buckets;
  for (std::size_t i = sizes.size(); i-- > 0;)
    buckets.push_back(members_of_size(sizes[i], gradients, taken, object.path("bucket_sizes")));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (taken[i]) continue;
    for (std::size_t bucket = buckets.size(); bucket-- > 0 && !taken[i];) {
      const Gradient& first = gradients[static_cast<std::size_t>(buckets[bucket].front())];
      if (gradients[i].elements != 0 || first.sparse || !mix(gradients[i], first)) continue;
      buckets[bucket].push_back(static_cast<int>(i));
      taken[i] = true;
    }
    if (!taken[i])
      throw InvalidArgument(
          fmt::format("{}: gradient {} is in none of the {} buckets", object.path("bucket_sizes"), i, sizes.size()));
  }
  Plan plan;
  for (std::size_t i = buckets.size(); i-- > 0;) append(plan, buckets[i], gradients);
  return plan;
}

void require_sizes(const Plan& plan, const std::vector<std::int64_t>& sizes, const std::string& where) {
  if (sizes.size() != plan.buckets.size())
    throw InvalidArgument(fmt::format("{} has {} buckets, the indices {}", where, sizes.size(), plan.buckets.size()));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (bytes_of(plan.buckets[i]) != sizes[i])
      throw InvalidArgument(fmt::format("{}: bucket {} has {} bytes, its gradients here {}; they are of another model",
                                        where, i, sizes[i], bytes_of(plan.buckets[i])));
}

}  // namespace

Plan plan_of_ddp_logging(const json& value, std::span<const Gradient> gradients) {
  require_gradients(gradients);
  const reading::Object object(value, "logging data");
  const std::int64_t tensors = object.integer("num_parameter_tensors", static_cast<std::int64_t>(gradients.size()));
  if (tensors != static_cast<std::int64_t>(gradients.size()))
    throw InvalidArgument(
        fmt::format("logging data.num_parameter_tensors is {}; there are {} gradients", tensors, gradients.size()));
  if (!object.has("rebuilt_per_bucket_param_indices")) return plan_of_sizes(object, gradients);
  Plan plan = plan_of_indices(object, gradients);
  if (object.has("rebuilt_bucket_sizes"))
    require_sizes(plan, sizes_in(object, "rebuilt_bucket_sizes"), object.path("rebuilt_bucket_sizes"));
  return plan;
}

// ---- Megatron-LM ----

Plan plan_of_megatron_layout(const json& value, std::span<const Gradient> gradients) {
  require_gradients(gradients);
  const reading::Object object(value, "layout");
  const json& parameters = reading::list(object.at("param_index"), object.path("param_index"));
  if (parameters.size() != gradients.size())
    throw InvalidArgument(fmt::format("layout.param_index has {} parameters; there are {} gradients", parameters.size(),
                                      gradients.size()));
  struct Place {
    int gradient;
    std::int64_t begin;
  };
  std::map<std::int64_t, std::vector<Place>> by_bucket;
  const auto numbers = [](const json& list, std::size_t count, const std::string& where) {
    std::vector<std::int64_t> read;
    for (const json& number : reading::list(list, where)) read.push_back(reading::integer(number, where));
    if (read.size() != count) reading::refuse(where, fmt::format("{} numbers", count), list);
    return read;
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string where = fmt::format("layout.param_index[{}]", i);
    const std::vector<std::int64_t> place = numbers(parameters[i], 3, where);
    if (place[0] < 0 || place[1] < place[0] || place[1] - place[0] != gradients[i].elements)
      throw InvalidArgument(fmt::format("{} is from {} to {}; the gradient has {} elements", where, place[0], place[1],
                                        gradients[i].elements));
    by_bucket[place[2]].push_back({static_cast<int>(i), place[0]});
  }
  Plan plan;
  const json& buckets = reading::list(object.at("bucket_indices"), object.path("bucket_indices"));
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::vector<std::int64_t> ends = numbers(buckets[i], 2, fmt::format("layout.bucket_indices[{}]", i));
    if (ends[0] < 0 || ends[1] < ends[0])
      throw InvalidArgument(fmt::format("layout.bucket_indices[{}] is from {} to {}", i, ends[0], ends[1]));
    std::vector<Place> members = std::move(by_bucket[static_cast<std::int64_t>(i)]);
    by_bucket.erase(static_cast<std::int64_t>(i));
    std::ranges::stable_sort(members, {}, &Place::begin);
    Bucket bucket =
        members.empty() ? Bucket{} : bucket_for(gradients[static_cast<std::size_t>(members.front().gradient)]);
    bucket.elements = ends[1] - ends[0];
    bucket.first_member = static_cast<int>(plan.members.size());
    bucket.members = static_cast<int>(members.size());
    for (const Place& place : members) plan.members.push_back({place.gradient, place.begin - ends[0]});
    plan.buckets.push_back(bucket);
  }
  if (!by_bucket.empty())
    throw InvalidArgument(fmt::format("layout.param_index[{}] is in bucket {}; there are {}",
                                      by_bucket.begin()->second.front().gradient, by_bucket.begin()->first,
                                      buckets.size()));
  return plan;
}

// ---- Paddle ----

Plan plan_of_paddle_groups(const json& value, std::span<const std::string> names, std::span<const Gradient> gradients) {
  require_gradients(gradients);
  if (names.size() != gradients.size())
    throw InvalidArgument(fmt::format("{} names for {} gradients", names.size(), gradients.size()));
  std::map<std::string, int, std::less<>> index_of;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!index_of.emplace(names[i], static_cast<int>(i)).second)
      throw InvalidArgument(fmt::format("gradients {} and {} are both called '{}'", index_of[names[i]], i, names[i]));
  Plan plan;
  for (const json& one : reading::list(value, "groups")) {
    const std::string where = fmt::format("groups[{}]", plan.buckets.size());
    const reading::Object group(one, where);
    std::vector<int> members;
    for (const json& name : reading::list(group.at("gradients"), group.path("gradients"))) {
      if (!name.is_string()) reading::refuse(group.path("gradients"), "names", name);
      const auto found = index_of.find(name.get_ref<const std::string&>());
      if (found == index_of.end())
        throw InvalidArgument(fmt::format("{} has '{}', and no gradient is called so", group.path("gradients"),
                                          name.get_ref<const std::string&>()));
      members.push_back(found->second);
    }
    append(plan, members, gradients);
    if (const std::int64_t elements = group.integer("numel", plan.buckets.back().elements);
        elements != plan.buckets.back().elements)
      throw InvalidArgument(fmt::format("{} is {}, its gradients here have {} elements", group.path("numel"), elements,
                                        plan.buckets.back().elements));
  }
  return plan;
}

// ---- whichever it is ----

ReadPlan plan_of_any_form(const json& value, const NamedGradients& gradients) {
  const auto has_any = [&](std::initializer_list<const char*> fields) {
    return value.is_object() && std::ranges::any_of(fields, [&](const char* field) { return value.contains(field); });
  };
  if (has_any({"buckets", "schema"})) return {plan_of_json(value), ""};
  if (has_any({"param_index", "bucket_indices"}))
    return {plan_of_megatron_layout(value, gradients.gradients), "Megatron-core's layout"};
  if (has_any({"bucket_sizes", "rebuilt_bucket_sizes", "rebuilt_per_bucket_param_indices", "num_parameter_tensors"}))
    return {plan_of_ddp_logging(value, gradients.gradients), "DDP's logging data"};
  if (value.is_array() || has_any({"groups"}))  // alone, or in all that is written of a pass
    return {plan_of_paddle_groups(value.is_array() ? value : value.at("groups"), gradients.names, gradients.gradients),
            "Paddle's groups"};
  throw InvalidArgument(fmt::format(
      "a plan must have buckets (ours), param_index and bucket_indices (Megatron-core's layout), bucket_sizes or "
      "rebuilt_per_bucket_param_indices (DDP's logging data), or be a list of groups (Paddle's), got {}",
      value.is_object() && !value.empty() ? fmt::format("an object with {}", value.begin().key())
                                          : reading::excerpt(value)));
}

}  // namespace plumbline::bucketing
