// harness/subject/python_rank.hpp: ranks of a backend that lives in Python: of torch.distributed.
#pragma once

namespace plumbline::subject {

/// Where the arguments of `plumbline worker` name backend c10d, makes this process the Python that hosts such a rank
/// ($PLUMBLINE_PYTHON, or python3), with the same arguments, environment and process id. Otherwise it returns, and
/// where there is no such Python: then the environment says why, and the backend, which is opened next, throws it.
void become_python_rank(int count, char** arguments);

}  // namespace plumbline::subject
