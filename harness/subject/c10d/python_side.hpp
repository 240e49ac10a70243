// harness/subject/c10d/python_side.hpp: what is asked of the Python that this process is: plumbline_c10d.py.
#pragma once

#include <nlohmann/json.hpp>

namespace plumbline::subject::c10d_backend {

/// Asks Python, from any thread. Throws NotAvailable where this process is no such Python, or has no torch;
/// RuntimeFailure, in one line, with what Python raised.
[[nodiscard]] nlohmann::json ask_python(const nlohmann::json& request);

}  // namespace plumbline::subject::c10d_backend
