#include "conformance/training/attention_faults.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace plumbline::conformance {
namespace {

enum Kind : std::size_t { query, key, value };

// Where things lie in one row.
class Features {
 public:
  Features(std::size_t tokens, std::size_t width, std::size_t heads, const Attending& way)
      : tokens_(tokens), all_(width / 3), of_head_(all_ / heads), way_(way) {}

  [[nodiscard]] std::size_t tokens() const { return tokens_; }
  [[nodiscard]] std::size_t all() const { return all_; }
  // Of what a softmax is over: the heads, or all of them as one.
  [[nodiscard]] std::size_t heads() const { return way_.is_split ? all_ / of_head_ : 1; }
  [[nodiscard]] std::size_t width() const { return way_.is_split ? of_head_ : all_; }
  // The feature `i` of a head's query, key or value of a token.
  [[nodiscard]] std::size_t in(std::size_t token, std::size_t head, Kind kind, std::size_t i) const {
    const std::size_t feature = head * width() + i;
    const std::size_t at =
        way_.is_interleaved ? (feature / of_head_ * 3 + kind) * of_head_ + feature % of_head_ : kind * all_ + feature;
    return token * 3 * all_ + at;
  }
  [[nodiscard]] std::size_t out(std::size_t token, std::size_t head, std::size_t i) const {
    return way_.is_transposed ? token * all_ + head * width() + i : (head * tokens_ + token) * width() + i;
  }

 private:
  std::size_t tokens_, all_, of_head_;
  const Attending& way_;
};

// How much a token of a head takes of each token.
std::vector<double> shares_of(const double* row, const Features& features, std::size_t token, std::size_t head,
                              const Attending& way) {
  const double scale = way.scale != 0 ? way.scale : 1 / std::sqrt(static_cast<double>(features.width()));
  std::vector<double> shares(way.is_causal ? token + 1 : features.tokens());
  for (std::size_t other = 0; other < shares.size(); ++other) {
    for (std::size_t i = 0; i < features.width(); ++i)
      shares[other] += row[features.in(token, head, query, i)] * row[features.in(other, head, key, i)];
    shares[other] *= scale;
  }
  const double largest = *std::ranges::max_element(shares);
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share - largest);
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace

std::vector<double> attention_of(const std::vector<double>& input, const job::Shape& shape, std::int64_t heads,
                                 const Attending& way) {
  const auto size = [&](std::size_t dim) { return static_cast<std::size_t>(shape[dim]); };
  const Features features(size(1), size(2), static_cast<std::size_t>(heads), way);
  std::vector<double> output(input.size() / 3);
  for (std::size_t row = 0; row < size(0); ++row) {
    const double* in = input.data() + row * size(1) * size(2);
    double* out = output.data() + row * size(1) * features.all();
    for (std::size_t head = 0; head < features.heads(); ++head)
      for (std::size_t token = 0; token < features.tokens(); ++token) {
        const std::vector<double> shares = shares_of(in, features, token, head, way);
        for (std::size_t other = 0; other < shares.size(); ++other)
          for (std::size_t i = 0; i < features.width(); ++i)
            out[features.out(token, head, i)] += shares[other] * in[features.in(other, head, value, i)];
      }
  }
  return output;
}

std::vector<std::pair<std::string, std::vector<double>>> wrong_attentions(const std::vector<double>& input,
                                                                          const job::Shape& shape, std::int64_t heads) {
  std::vector<std::pair<std::string, std::vector<double>>> found;
  if (shape.size() != 3) return found;
  const double all = static_cast<double>(shape[2]) / 3, of_head = all / static_cast<double>(heads);
  const auto add = [&](const char* words, const Attending& way) {
    found.emplace_back(words, attention_of(input, shape, heads, way));
  };
  add("without the causal mask: tokens see those after them", {.is_causal = false});
  add("query times key not divided by the root of a head's features", {.scale = 1});
  add("query times key divided by a head's features, and not by their root", {.scale = 1 / of_head});
  add("query times key divided by the root of all heads' features", {.scale = 1 / std::sqrt(all)});
  add("heads not split: one softmax over all features", {.is_split = false});
  add("the input taken as the queries of all heads, then their keys, then their values", {.is_interleaved = false});
  add("outputs head after head, not put back token by token", {.is_transposed = false});
  return found;
}

}  // namespace plumbline::conformance
