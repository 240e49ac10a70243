// harness/subject/adapter/operations.hpp: the reference's answers, a function per component.
//
// Model   A component's file reads arguments, calls the reference, and writes the result under the recorded
//         names; reference_service() in service.cpp calls them all.
#pragma once

#include "harness/subject/adapter/service.hpp"

namespace plumbline::subject {

/// comm.ring_sum
void add_comm_operations(AdapterService& service);

}  // namespace plumbline::subject
