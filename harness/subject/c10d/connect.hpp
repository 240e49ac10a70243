// harness/subject/c10d/connect.hpp: how the Python around this process and the module find each other.
#pragma once

#include <cstddef>

namespace plumbline::subject::c10d_backend {

/// Python's function: a request in JSON; its answer, also JSON, goes into `answer`, with a zero at the end.
using AskPython = void(const char* request, char* answer, std::size_t size);

/// From now on requests go there.
void connect(AskPython* function);

/// The variable of the environment that says why there is no such function.
inline constexpr const char* kProblemVariable = "PLUMBLINE_C10D_PROBLEM";

}  // namespace plumbline::subject::c10d_backend
