#include "conformance/bucketing/question.hpp"

#include <map>
#include <numeric>

#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using nlohmann::json;

namespace {

const std::map<std::string, std::int64_t>& bytes_of_types() {
  static const std::map<std::string, std::int64_t> bytes{{"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8}, {"c64", 8}};
  return bytes;
}

const std::vector<std::string>& types() {
  static const std::vector<std::string> names{"f32", "f16", "bf16", "f64", "c64"};
  return names;
}

BucketQuestion of_sizes(std::vector<std::int64_t> sizes, std::vector<std::int64_t> limits) {
  BucketQuestion question{
      .numel = std::move(sizes), .dtype = {}, .device = {}, .limits = std::move(limits), .sparse = {}, .indices = {}};
  question.dtype.assign(question.size(), "f32");
  question.device.assign(question.size(), "cpu");
  return question;
}

std::vector<std::int64_t> random_sizes(Random& random, int most) {
  std::vector<std::int64_t> sizes;
  for (int left = random.between(1, most); left > 0; --left)
    sizes.push_back(random.between(0, 4) == 0 ? random.between(0, 1) : random.between(1, 300));
  return sizes;
}

void mix_types(BucketQuestion& question, Random& random) {
  for (std::string& dtype : question.dtype) dtype = random.one_of(types());
  for (std::string& device : question.device) device = random.between(0, 3) == 0 ? "cuda:1" : "cpu";
}

void mark_sparse(BucketQuestion& question, Random& random) {
  question.sparse.resize(question.size());
  for (auto&& flag : question.sparse) flag = random.between(0, 3) == 0;
}

// About the limit, and many times it.
BucketQuestion around_limit(Random& random) {
  const int limit = random.between(4, 60);
  std::vector<std::int64_t> sizes;
  for (int left = random.between(1, 10); left > 0; --left)
    sizes.push_back(random.one_of(std::vector<std::int64_t>{1, limit - 1, limit, limit + 1, limit / 2, 7 * limit}));
  return of_sizes(std::move(sizes), {std::int64_t{4} * limit});
}

// Counts, and sums of them, that 31 and 32 bits do not hold.
BucketQuestion large(Random& random) {
  std::vector<std::int64_t> sizes;
  for (int left = random.between(2, 8); left > 0; --left)
    sizes.push_back((std::int64_t{1} << random.between(28, 34)) + random.between(-1, 1));
  return of_sizes(std::move(sizes), {std::int64_t{1} << random.between(31, 36)});
}

}  // namespace

std::int64_t BucketQuestion::bytes_at(std::size_t position) const {
  return numel[position] * bytes_of_types().at(dtype[position]);
}

std::vector<std::size_t> BucketQuestion::positions() const {
  std::vector<std::size_t> list(size());
  for (std::size_t position = 0; position < size(); ++position)
    list[static_cast<std::size_t>(index_at(position))] = position;
  return list;
}

json BucketQuestion::args(const std::string& convention) const {
  json args{{"numel", numel}, {"dtype", dtype}, {"device", device}, {"limits", limits}};
  if (convention != "plumbline") args["convention"] = convention;
  if (!sparse.empty()) args["expect_sparse_gradient"] = sparse;
  if (!indices.empty()) args["tensor_indices"] = indices;
  return args;
}

BucketQuestion draw_question(const std::string& kind, Random& random) {
  const std::vector<std::int64_t> single{1, 100, 400, 1600};
  if (kind == "equal") return of_sizes(std::vector<std::int64_t>(6, 4), {32});
  if (kind == "around_limit") return around_limit(random);
  if (kind == "large") return large(random);
  BucketQuestion question = of_sizes(random_sizes(random, 20), {random.one_of(single)});
  if (kind == "one_type") return question;
  if (kind == "limits" || kind == "types" || kind == "ordered")
    for (int more = random.between(1, 2); more > 0; --more)
      question.limits.push_back(random.one_of(std::vector<std::int64_t>{0, 1, 200, 900, 5000}));
  if (kind == "limits") return question;
  if (kind == "types" || kind == "ordered") mix_types(question, random);
  if (kind == "types") return question;
  if (kind != "sparse" && kind != "ordered") throw NotFound("no gradients '" + kind + "'");
  mark_sparse(question, random);
  if (kind == "sparse") return question;
  std::vector<int> indices(question.size());
  std::iota(indices.begin(), indices.end(), 0);
  question.indices = random.shuffled(indices);
  return question;
}

namespace {

BucketQuestion without(const BucketQuestion& question, std::size_t position) {
  BucketQuestion less = question;
  const auto at = [&](auto& list) { list.erase(list.begin() + static_cast<std::ptrdiff_t>(position)); };
  const int index = question.index_at(position);
  at(less.numel), at(less.dtype), at(less.device);
  if (!less.sparse.empty()) less.sparse.erase(less.sparse.begin() + index);
  if (!less.indices.empty()) at(less.indices);
  for (int& other : less.indices) other -= other > index;
  return less;
}

}  // namespace

std::vector<BucketQuestion> smaller_questions(const BucketQuestion& question) {
  std::vector<BucketQuestion> list;
  for (std::size_t i = 0; question.size() > 1 && i < question.size(); ++i) list.push_back(without(question, i));
  for (std::size_t i = 0; question.limits.size() > 1 && i < question.limits.size(); ++i) {
    list.push_back(question);
    list.back().limits.erase(list.back().limits.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (std::size_t i = 0; i < question.size(); ++i) {
    if (question.numel[i] > 1) list.push_back(question), list.back().numel[i] /= 2;
    if (question.is_sparse_at(i))
      list.push_back(question), list.back().sparse[static_cast<std::size_t>(question.index_at(i))] = false;
  }
  return list;
}

}  // namespace plumbline::conformance
