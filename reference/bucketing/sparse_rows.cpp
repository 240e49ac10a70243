#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "reference/bucketing/reducer.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {

// What ranks tell each other first.
struct SparseExtent {
  std::int64_t rows = 0;
  std::int64_t width = 0;  // numbers of a row, 0 where there are none
};

namespace {

comm::Buffer buffer_over(std::vector<std::int64_t>& numbers) {
  return {numbers.data(), std::ssize(numbers), comm::DType::i64};
}
comm::Buffer buffer_over(std::vector<SparseExtent>& extents) {
  static_assert(sizeof(SparseExtent) == 2 * sizeof(std::int64_t));
  return {extents.data(), 2 * std::ssize(extents), comm::DType::i64};
}
comm::Call gathering(comm::Buffer own, comm::Buffer all) {
  return {.operation = comm::Operation::all_gather, .in = own, .out = all};
}

// The numbers of a row, on all ranks.
std::int64_t width_of(const comm::Communicator& group, const std::vector<SparseExtent>& extents) {
  int first = -1;
  for (int rank = 0; rank < group.size(); ++rank) {
    const SparseExtent& one = extents[static_cast<std::size_t>(rank)];
    if (one.rows == 0) continue;
    if (first < 0) first = rank;
    const std::int64_t width = extents[static_cast<std::size_t>(first)].width;
    if (one.width != width)
      throw comm::MismatchError(
          fmt::format("a sparse gradient on group {}: rows of {} numbers on rank {}, of {} on rank {}",
                      group.group().name, width, first, one.width, rank));
  }
  return first < 0 ? 0 : extents[static_cast<std::size_t>(first)].width;
}

}  // namespace

class SparseSum::Impl {
 public:
  virtual ~Impl() = default;
  virtual void take(const SparseRows& rows) = 0;
  virtual comm::Work start(comm::Communicator& group) = 0;
  virtual void finish(comm::Communicator& group, double before, double after, comm::Timeout timeout) = 0;
  [[nodiscard]] virtual SparseRows rows() const = 0;
  virtual void clear() = 0;
};

template <class T>
class SparseSum::Of final : public SparseSum::Impl {
 public:
  Of(std::int64_t elements, comm::DType dtype) : elements_(elements), dtype_(dtype) {}

  void take(const SparseRows& rows) override {
    const auto count = std::ssize(rows.indices);
    require(rows, count);
    clear();
    if (count == 0) return;
    width_ = rows.values.count / count;
    Sum sum;
    const auto* const values = static_cast<const T*>(rows.values.data);
    for (std::int64_t i = 0; i < count; ++i) add(sum, rows.indices[static_cast<std::size_t>(i)], values + i * width_);
    hold(sum);
  }

  comm::Work start(comm::Communicator& group) override {
    own_ = {{.rows = std::ssize(indices_), .width = indices_.empty() ? 0 : width_}};
    extents_.assign(static_cast<std::size_t>(group.size()), {});
    return group.start(gathering(buffer_over(own_), buffer_over(extents_)));
  }

  void finish(comm::Communicator& group, double before, double after, comm::Timeout timeout) override {
    width_ = width_of(group, extents_);
    const std::int64_t most = std::ranges::max(extents_, {}, &SparseExtent::rows).rows;
    if (most == 0) return;
    const auto ranks = static_cast<std::size_t>(group.size());
    for (T& value : values_) value /= static_cast<T>(before);
    indices_.resize(static_cast<std::size_t>(most));
    values_.resize(static_cast<std::size_t>(most * width_));
    std::vector<std::int64_t> indices(ranks * indices_.size());
    std::vector<T> values(ranks * values_.size());
    const std::vector<comm::Call> calls{
        gathering(buffer_over(indices_), buffer_over(indices)),
        gathering({values_.data(), std::ssize(values_), dtype_}, {values.data(), std::ssize(values), dtype_})};
    group.start(calls).wait(timeout);
    Sum sum;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      for (std::int64_t i = 0; i < extents_[rank].rows; ++i) {
        const auto place = static_cast<std::int64_t>(rank) * most + i;
        add(sum, indices[static_cast<std::size_t>(place)], values.data() + place * width_);
      }
    hold(sum);
    for (T& value : values_) value /= static_cast<T>(after);
  }

  [[nodiscard]] SparseRows rows() const override {
    return {.indices = indices_, .values = {values_.data(), std::ssize(values_), dtype_}};
  }
  void clear() override {
    indices_.clear();
    values_.clear();
  }

 private:
  using Sum = std::map<std::int64_t, std::vector<T>>;  // row by index

  void add(Sum& sum, std::int64_t index, const T* row) const {
    const auto [place, is_new] = sum.try_emplace(index, row, row + width_);
    for (std::size_t i = 0; !is_new && i < place->second.size(); ++i) place->second[i] += row[i];
  }
  void hold(const Sum& sum) {
    indices_.clear();
    values_.clear();
    for (const auto& [index, row] : sum) {
      indices_.push_back(index);
      values_.insert(values_.end(), row.begin(), row.end());
    }
  }
  void require(const SparseRows& rows, std::int64_t count) const {
    const auto refuse = [](const std::string& why) { throw InvalidArgument("a sparse gradient: " + why); };
    if (rows.values.dtype != dtype_)
      refuse(fmt::format("rows of {}, where it is of {}", comm::name_of(rows.values.dtype), comm::name_of(dtype_)));
    if (rows.values.device.kind != comm::Device::Kind::cpu)
      refuse(fmt::format("rows on {}; they are added in host memory", name_of(rows.values.device)));
    if (rows.indices.empty() && rows.values.count == 0) return;
    if (rows.indices.empty() || rows.values.count == 0 || rows.values.count % count != 0)
      refuse(fmt::format("{} numbers in {} rows; equally many in each, 1 or more, are possible", rows.values.count,
                         count));
    const std::int64_t width = rows.values.count / count;
    if (elements_ % width != 0) refuse(fmt::format("rows of {} numbers, where it has {} in all", width, elements_));
    for (const std::int64_t index : rows.indices)
      if (index < 0 || index >= elements_ / width)
        refuse(fmt::format("row {}; there are 0 to {}", index, elements_ / width - 1));
  }

  std::int64_t elements_;
  comm::DType dtype_;
  std::int64_t width_ = 0;
  std::vector<std::int64_t> indices_;  // this rank's, then the sum's
  std::vector<T> values_;
  std::vector<SparseExtent> own_, extents_;  // this rank's, and all ranks'
};

SparseSum::SparseSum(std::int64_t elements, comm::DType dtype) {
  if (dtype == comm::DType::f32)
    impl_ = std::make_unique<Of<float>>(elements, dtype);
  else if (dtype == comm::DType::f64)
    impl_ = std::make_unique<Of<double>>(elements, dtype);
  else
    throw Unsupported(fmt::format("a sparse gradient of {}; those of f32 and f64 are added", comm::name_of(dtype)));
}
SparseSum::~SparseSum() = default;
SparseSum::SparseSum(SparseSum&&) noexcept = default;
SparseSum& SparseSum::operator=(SparseSum&&) noexcept = default;
void SparseSum::take(const SparseRows& rows) { impl_->take(rows); }
comm::Work SparseSum::start(comm::Communicator& group) { return impl_->start(group); }
void SparseSum::finish(comm::Communicator& group, double before, double after, comm::Timeout timeout) {
  impl_->finish(group, before, after, timeout);
}
SparseRows SparseSum::rows() const { return impl_->rows(); }
void SparseSum::clear() { impl_->clear(); }

}  // namespace plumbline::bucketing
