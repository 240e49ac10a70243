#include "reference/training/steps.hpp"

namespace plumbline::training {

void sum_over(comm::Communicator& group, const comm::Buffer& values) {
  group.all_reduce(values, values, comm::ReduceOp::sum);
}

}  // namespace plumbline::training
