#include "reference/bucketing/detail/bucket_store.hpp"

#include <utility>

#include "reference/comm/call.hpp"

namespace plumbline::bucketing {

BucketStore::BucketStore(const ReducerSetup& setup, Plan plan)
    : setup_(&setup), plan_(std::move(plan)), slots_(setup.gradients.size()), memory_(plan_.buckets.size()) {
  setup.check_plan(plan_);
  for (int bucket = 0; bucket < size(); ++bucket) {
    for (const Member& member : members_of(bucket))
      slots_[static_cast<std::size_t>(member.gradient)] = {
          .bucket = bucket, .begin = member.begin * (*this)[bucket].components_per_element};
    if (!setup.options.lazy) ensure_memory(bucket);
  }
}

std::string BucketStore::named(int bucket) const {
  std::vector<std::string> names;
  for (const Member& member : members_of(bucket)) names.push_back(setup_->name(member.gradient));
  return ReducerSetup::listed(names);
}

comm::Buffer BucketStore::slot_of(int gradient) const {
  const Slot& slot = slots_[static_cast<std::size_t>(gradient)];
  return comm::part_of(buffer_of(slot.bucket), slot.begin, setup_->numbers_of(gradient));
}

comm::Buffer BucketStore::buffer_of(int bucket) const {
  const Bucket& one = (*this)[bucket];
  return {memory_[static_cast<std::size_t>(bucket)].get(), one.elements * one.components_per_element, one.dtype,
          one.device};
}

comm::Buffer BucketStore::own_part(int bucket, comm::Buffer values) const {
  if (!setup_->is_sharded()) return values;
  const comm::Communicator& group = group_of(bucket);
  const std::int64_t part = values.count / group.size();
  return comm::part_of(values, group.rank() * part, part);
}

bool BucketStore::ensure_memory(int bucket) {
  std::shared_ptr<std::byte>& memory = memory_[static_cast<std::size_t>(bucket)];
  if (memory || is_sparse(bucket)) return false;
  memory = setup_->memory->allocate(static_cast<std::size_t>((*this)[bucket].bytes()));
  return true;
}

std::int64_t BucketStore::bytes() const {
  std::int64_t bytes = 0;
  for (int bucket = 0; bucket < size(); ++bucket)
    if (has_memory(bucket)) bytes += (*this)[bucket].bytes();
  return bytes;
}

}  // namespace plumbline::bucketing
