// conformance/bucketing/question.hpp: lists of gradients to ask about, drawn by what is hard in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "conformance/support/property.hpp"

namespace plumbline::conformance {

/// The arguments of bucketing.assign. Position i is gradient `indices[i]`, or i where there are no indices; flags are
/// by gradient.
struct BucketQuestion {
  std::vector<std::int64_t> numel;
  std::vector<std::string> dtype, device;
  std::vector<std::int64_t> limits;
  std::vector<bool> sparse;
  std::vector<int> indices;

  [[nodiscard]] std::size_t size() const { return numel.size(); }
  [[nodiscard]] int index_at(std::size_t position) const {
    return indices.empty() ? static_cast<int>(position) : indices[position];
  }
  [[nodiscard]] bool is_sparse_at(std::size_t position) const {
    return !sparse.empty() && sparse[static_cast<std::size_t>(index_at(position))];
  }
  [[nodiscard]] std::int64_t bytes_at(std::size_t position) const;
  [[nodiscard]] std::string key_at(std::size_t position) const { return dtype[position] + " " + device[position]; }
  /// The position of each gradient.
  [[nodiscard]] std::vector<std::size_t> positions() const;
  [[nodiscard]] nlohmann::json args(const std::string& convention) const;
};

/// "equal", "one_type", "limits", "types", "sparse", "ordered", "around_limit", "large". Throws NotFound for another.
[[nodiscard]] BucketQuestion draw_question(const std::string& kind, Random& random);
[[nodiscard]] std::vector<BucketQuestion> smaller_questions(const BucketQuestion& question);

}  // namespace plumbline::conformance
