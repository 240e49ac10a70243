"""What the commands say to input that is wrong: one line, the status, and that nothing is lost; and that they do what they say.

usage: cli_test.py PLUMBLINE MODULES [unittest arguments]

MODULES are the optional parts of the build: "mpi,training,metrics", or "".
"""
import fcntl, hashlib, importlib.util, json, os, re, resource, shlex, shutil, signal, statistics, subprocess, sys, tempfile, time, unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))
import check_prose

PLUMBLINE = os.path.realpath(sys.argv[1])
MODULES = sys.argv[2].split(",")
WOVEN = Path(PLUMBLINE).parent.parent / "woven/bin/plumbline"
needs_training = unittest.skipUnless("training" in MODULES, "built without LibTorch")
METRICS = ["metrics.prom"] if "metrics" in MODULES else []
needs_mpi = unittest.skipUnless("mpi" in MODULES, "built without MPI")
TOPOLOGY = ["topology", "--axes", "pipe,data,model", "--dims", "2,3,2"]
LAYER_COLUMNS = "name,type,parameters,forward,backward,activation_bytes"
LAYERS = f"""{LAYER_COLUMNS}
embedding, Embedding, 900, 5, 5, 0
block.0, Block, 10, 1, 1, 4
block.1, Block, 10, 1, 1, 4

block.2, Block, 10, 1, 1, 4
block.3, Block, 10, 1, 1, 4
head, Linear, 939, 2, 2, 2
"""
SCHEDULE = ["schedule", "--name", "1f1b", "--stages", "2", "--micro-batches", "3"]
PASS = ["check", "--filter", "collectives.barrier*", "--world-size", "2"]

COMMANDS = ["check", "train", "bench", "bench allreduce_fusion", "bench pipeline_bubble", "requirements", "explain", "expectations",
            "expectations check", "expectations update", "expectations prune", "mutants", "canary", "merge", "submit", "verify", "schedule",
            "topology", "buckets", "gossip", "pass", "scaler", "adapter", "build-module", "doctor", "compare", "gate", "calibrate", "results",
            "results add", "trend", "report", "selftest"]

# Arguments, status, and what the line must name.
REFUSALS = [
    ("build-module", 2, "module is required"),
    ("build-module mpi", 2, "no module 'mpi' is built for a torch; there are training, c10d"),
    ("build-module training --jobs=-1", 2, "--jobs -1: must be 1 or more"),
    ("build-module training --torch /nonexistent", 2, "--torch '/nonexistent': there is no such program; it is a Python that imports torch"),
    ("", 2, "no command is given; there are check, "),
    ("frobnicate", 2, "no command 'frobnicate'; there are check"),
    ("check --frobnicate", 2, "--frobnicate"),
    ("expectations pruen", 2, "no command 'expectations pruen'; there are check, update, prune"),
    ("expectations", 2, "no command is given after expectations; there are check, update, prune"),
    ("bench allreduce_fusio", 2, "no command 'bench allreduce_fusio'; there are "),
    ("mutants --backend nope", 2, "plumbline: --backend: no backend 'nope'; there are local"),
    ("check --backend nope", 2, "no backend 'nope'; there are local"),
    ("check --profile nope", 2, "no profile 'nope'; there are collectives"),
    ("check --filter nope", 2, "--filter 'nope'"),
    ("check --mutant nope", 2, "no mutant 'nope'; plumbline mutants --list has them"),
    ("check --mutant col.drop_last_elemnt", 2, "; did you mean col.drop_last_element?"),
    ("check --mutant ans.overlap_taken", 2, "it breaks what --adapter names"),
    ("check --adapter reference --mutant amp.below_min", 2, "this build has none of its kind; they are edits of the source, which "),
    ("check --adapter reference --mutant col.leaky_barrier", 2, "it breaks what --backend names"),
    ("check --world-size 0", 2, "'0' is not a whole number from 1"),
    ("check --world-size=-2", 2, "'-2' is not a whole number from 1"),
    ("check --world-size two", 2, "'two' is not a whole number from 1"),
    ("check --world-size 257", 2, "--world-size: 257 ranks; at most 256"),
    ("check --world-size 2,", 2, "--world-size '2,': a part between commas is empty"),
    ("check --world-size 2,,3", 2, "--world-size '2,,3': a part between commas is empty"),
    ("check --backend plugin:", 2, "--backend 'plugin:': no file; give --backend plugin:./libacme.so"),
    ("check --backend plugin:nowhere.so", 2, "--backend plugin:nowhere.so: 'nowhere.so' is not a file"),
    ("check --backend plugin:/etc/passwd --backend-option library=x", 2, "it names the library, and so does --backend-option library"),
    ("mutants --backend plugin:nowhere.so --filter col.tags_ignored", 2, "'nowhere.so' is not a file"),
    ("check --backend lcal", 2, "no backend 'lcal'; there are local, mpi, nccl, "),
    ("check --backend lcal", 2, ", plugin; did you mean local?"),
    ("check --profile pipelin", 2, "no profile 'pipelin'; there are collectives"),
    ("check --profile pipelin", 2, "; did you mean pipeline?"),
    ("requirements --filter COLL-001", 2, "unexpected argument --filter (see plumbline requirements --help)"),
    ("requirements COLL-001", 2, "unexpected argument COLL-001 (see plumbline requirements --help)"),
    ("check --bakend local", 2, "--bakend; did you mean --backend? (see plumbline check --help)"),
    ("check --launcher fok", 2, "did you mean fork?"),
    ("schedle", 2, "; did you mean schedule?"),
    ("mutants --component scaller", 2, "; did you mean scaler?"),
    ("mutants --list --filter SCALER-001 --component gossip", 2,
     "--filter 'SCALER-001' names no mutant that --component and --backend leave; it is of component scaler"),
    ("mutants --list --filter col.drop_last_elemnt", 2, "names no mutant; did you mean col.drop_last_element?"),
    ("check --list=no", 2, "--list takes no value; give it alone"),
    ("train --no-judge=false", 2, "--no-judge takes no value; give it alone"),
    ("buckets --rule megatrn", 2, "; did you mean megatron?"),
    ("topology --axes a,b --dims 2,3 --convention torc", 2, "; did you mean torch?"),
    ("gossip --graph rng", 2, "; did you mean ring?"),
    ("bench --benchmark collectives.allreduce", 2, "; did you mean collectives.all_reduce?"),
    ("check --filter COLL-01", 2, "; did you mean COLL-0"),
    ("check --filter component:colectives", 2, "; did you mean component:collectives?"),
    ("check --adapter reference --list --filter schedules.lowr", 2, "; did you mean operation:schedules.lower?"),
    ("check --adapter reference --list --filter operation:schedules.lowr", 2, "; did you mean operation:schedules.lower?"),
    ("check --list --filter schedules.lower", 2, "; did you mean operation:schedules.lower, with --adapter and --profile pipeline"),
    ("check --list --filter reduce_scater", 2, "; did you mean '*reduce_scatter*'?"),
    ("explain schedules.lowr", 2, "; did you mean schedules.lower?"),
    ("explain schedules.lower --record none", 2, "none"),
    ("check --filter tag:deadlok", 2, "; did you mean tag:deadlock?"),
    ("check --filter source:COL-99", 2, "; did you mean source:COL-"),
    ("explain COLL-01", 2, "print them; did you mean COLL-0"),
    ("explain COL-", 2, "print them; did you mean COL-0"),
    ("explain frobnicate", 2, "or bug; plumbline requirements and plumbline mutants --list print them\n"),
    ("explain col.drop_last_elemnt", 2, "; did you mean col.drop_last_element?"),
    ("explain hollow.nul", 2, "; did you mean hollow.null?"),
    ("explain schedules.partition.even_sizes[nonsense", 2, "'schedules.partition.even_sizes[nonsense' is not a case of schedules.partition.even_sizes"),
    ("check --filter SCHED-024", 2, "--filter 'SCHED-024' matches nothing in profile collectives; with --adapter and --profile pipeline or full it does"),
    ("check --filter PIPE-001", 2, "matches nothing in profile collectives; --profile pipeline or full has it"),
    ("check --world-size 64", 2, "at the requested world sizes; --world-size has 1, 2"),
    ("check --backend local --launcher mpirun", 2, "--launcher mpirun: only for backends whose ranks are processes; backend local has threads"),
    ("check --adapter reference --launcher mpirun", 2, "--launcher mpirun: only for backends whose ranks are processes; an adapter is started by itself"),
    ("bench --control-address 10.0.0.1", 2, "--control-address 10.0.0.1: only for backends whose ranks are processes"),
    ("check --allow-unexpected-pass", 2, "--allow-unexpected-pass requires --expectations"),
    ("mutants --world-size 2", 2, "--world-size requires --full"),
    ("bench --benchmark collectives.barrier --sizes 8", 2, "--sizes 8: collectives.barrier has one size alone"),
    ("bench --list --benchmark nope", 2, "--benchmark 'nope' matches nothing"),
    ("bench pipeline_bubble --width 8", 2, "--width requires --libtorch"),
    ("requirements --coverage --format md", 2, "--format excludes --coverage"),
    ("expectations update a.jsonl --file b.toml --dry-run --out c.toml", 2, "excludes"),
    ("gossip --graph ring --rows 3", 2, "--rows 3: only for --graph mesh; ring has no rows"),
    ("gossip --graph ring --center 1", 2, "--center 1: only for --graph star; ring has no center"),
    ("pass p.json --use-sharding --max-fuse-numel 3", 2, "excludes"),
    ("check --statement --filter COLL-001", 2, "--filter excludes --statement"),
    ("check --statement --time-limit 3", 2, "--time-limit excludes --statement"),
    ("check --statement --mutant col.drop_last_element", 2, "--mutant excludes --statement"),
    ("check --statement --seed 1", 2, "--seed 1: every statement has it already; give another one"),
    ("check --statement --shard 1/2", 2, "--shard 1/2: of a statement all shards have one fresh seed; give each the same: --seed "),
    ("submit", 2, "submit needs a record: RUN"),
    ("submit r", 2, "submit needs --subject FILE (--template prints one)"),
    ("submit r --subject s", 2, "submit needs --out DIR"),
    ("submit r --subject nowhere.toml --out o", 2, "nowhere.toml"),
    ("submit r --subject /dev/null --out o", 2, "/dev/null:1:1: a subject has no 'vendor'"),
    ("verify", 2, "folder is required"),
    ("verify nowhere", 2, "'nowhere' is no folder; give that which plumbline submit made"),
    ("verify / --signers nowhere", 2, "--signers 'nowhere': there is no such file"),
    ("verify / --date soon", 2, "--date 'soon' is not a date; give one such as 2027-03-31"),
    ("canary --backend local", 2, "--against is required"),
    ("canary --against lcal", 2, "--against: no backend 'lcal'"),
    ("canary --backend mpi --against mpi --against-launcher nope", 2, "--against-launcher 'nope'; it must be auto"),
    ("canary --against local --operations all_reduc", 2, "--operations 'all_reduc'; the operations are all_reduce, reduce, "),
    ("canary --against local --dtypes i32", 2, "--dtypes 'i32'; the types are f16, bf16, f32, f64"),
    ("canary --against local --sizes 1Gi", 2, "--sizes 1073741824: with 2 ranks it is at most 536870912 bytes"),
    ("canary --against local --sizes x", 2, "--sizes: 'x' is not a size in bytes"),
    ("canary --against local --world-size 257", 2, "--world-size: 257 ranks; at most 256"),
    ("canary --against local --slower=-1", 2, "-1"),
    ("canary --against local --against-mutant nope", 2, "no mutant 'nope'"),
    ("canary --against local --variable NCCL_ALGO", 2, "--variable 'NCCL_ALGO' is not NAME=VALUE"),
    ("canary --against local --against-variable =Ring", 2, "--against-variable '=Ring' is not NAME=VALUE"),
    ("canary --against local --variable X=1 --variable X=2", 2, "--variable 'X=2': X is given twice"),
    ("canary --against local --variable PLUMBLINE_RANK=7", 2, "--variable 'PLUMBLINE_RANK=7': the driver sets variables of that name itself"),
    ("bench --benchmark canary.values", 2, "`plumbline canary` measures canary.values"),
    ("merge nowhere --out whole", 2, "there is no record 'nowhere'; give the run.jsonl of a run, or its folder"),
    ("explain COLL-001 --record nowhere", 2, "--record: there is no record 'nowhere'"),
    ("explain COL-02 --record nowhere", 2, "--record: there is no record 'nowhere'"),
    ("check --seed=-1", 2, "'-1' is not a whole number from 0"),
    ("check --seed 18446744073709551615", 2, "'18446744073709551615' is not a whole number"),
    ("check --shuffle=x", 2, "--shuffle: 'x' is not a whole number"),
    ("check --repeat 0", 2, "'0' is not a whole number from 1"),
    ("check --time-limit nan", 2, "'nan' is not a number of seconds"),
    ("check --time-limit 1e10", 2, "'1e10' is not a number of seconds"),
    ("check --jobs 65", 2, "'65' is not a whole number from 1 to 64"),
    ("check --backend-option a", 2, "'a' is not KEY=VALUE"),
    ("check --label a", 2, "'a' is not KEY=VALUE"),
    ("check --label a-b=1", 2, "'a-b=1': the key must be letters, digits and _"),
    ("check --label subject=a", 2, "'subject=a': Plumbline's metrics have a label subject of their own"),
    ("check --label a=1 --label a=2", 2, "a was given before"),
    ("check --label a=", 2, "the value must have 1 to 200 bytes"),
    ("check --subject-name=", 2, "--subject-name"),
    ("check --out=", 2, "--out"),
    ("check --budget 0", 2, "'0' is not a number of seconds"),
    ("bench --sizes 3", 2, "--sizes 3: elements are f32; it must be a multiple of 4 bytes"),
    ("bench --sizes 1KB", 2, "--sizes '1KB' is not a number of bytes such as 4, 64Ki, 64KiB or 16MiB"),
    ("buckets --gradients /dev/null", 2, "--gradients /dev/null: it has no gradients"),
    ("check --backend-option a=1", 2, "backend local has no options"),
    ("check --backend local --adapter reference", 2, "one subject"),
    ("check --adapter reference --world-size 2", 2, "--world-size 2"),
    ("check --adapter /nonexistent", 3, "/nonexistent"),
    ("check --adapter reference --backend-option a=1", 2, "an adapter is no backend"),
    ("adapter --describe topology.prime_factor", 2, "--describe: there is no operation 'topology.prime_factor'; plumbline adapter --describe lists all; did you mean topology.prime_factors?"),
    ("adapter --example nope", 2, "--example: there is no operation 'nope'; plumbline adapter --describe lists all\n"),
    ("schedule --name frobnicate --stages 4 --micro-batches 8", 2, "--name 'frobnicate': no such schedule; plumbline schedule --list names all\n"),
    ("gossip --graph x", 2, "random-matching\n"),
    ("adapter --describe --format svg", 2, "--format svg: must be text, md or json"),
    ("adapter --format md", 2, "--format: only for --describe"),
    ("adapter --describe comm.calls --example comm.calls", 2, "--example: --describe OP prints the example, too"),
    ("check --job a", 2, "profile collectives has no check of the job door; --profile pipeline, data-parallel, mixed-precision or full has"),
    ("check --job a --backend local", 2, "one subject"),
    ("check --job a --adapter reference", 2, "one subject"),
    ("check --job a --backend-option a=1", 2, "a job is no backend"),
    ("check --job a --mutant col.drop_last_element", 2, "--mutant col.drop_last_element: it breaks what --backend names"),
    ("check --job=", 2, "--job: the value is missing; give --job CMD"),
    ("check --job-launches-ranks", 2, "--job-launches-ranks requires --job"),
    ("check --job-serves-ranks", 2, "--job-serves-ranks requires --job"),
    ("check --job true --job-serves-ranks --job-launches-ranks", 2, "--job-launches-ranks excludes --job-serves-ranks"),
    ("check --job a --profile data-parallel --world-size 7", 2, "nothing to run: no case of profile data-parallel for the job"),
    ("check --device tpu", 2, "'tpu' is not cpu, cuda, cuda:N, emulated or emulated:N"),
    ("check --device emulated:7 --world-size 1 --filter COLL-001", 2, "there is no emulated:7; this process has 2, from emulated:0"),
    ("check --device emulated --job true --profile data-parallel", 2, "--device emulated: a job computes on cpu or cuda"),
    ("check --device emulated --adapter reference", 2, "--device emulated: an adapter chooses its device itself"),
    ("train --device tpu", 2, "'tpu' is not cpu, cuda, cuda:N, emulated or emulated:N"),
    ("check --resume", 2, "there is no record in"),
    ("check --out /proc/nope", 3, "/proc/nope"),
    ("check --launcher nope", 2, "--launcher 'nope'; it must be auto"),
    ("check --backend nccl --device cpu", 2, "--device cpu: with these options backend nccl moves memory of cuda alone"),
    ("bench allreduce_fusion --backend nccl", 2, "--backend nccl: it moves memory of devices alone"),
    ("bench --backend nccl --backend-option library=/nowhere/libnccl.so.2", 3, "'/nowhere/libnccl.so.2' is not on this machine"),
    ("bench --backend nccl --device cpu", 2, "--device cpu: with these options backend nccl moves memory of cuda alone"),
    ("bench --device tpu", 2, "'tpu' is not cpu, cuda, cuda:N, emulated or emulated:N"),
    ("bench --device emulated:7 --sizes 4", 2, "there is no emulated:7; this process has 2, from emulated:0"),
    ("bench --device emulated --benchmark gossip_throughput.*", 2, "gossip_throughput.network.ethernet.all_reduce has its data in the host's memory, for its slow links "
     "are emulated there; all have them in a device's but memory.copy_streaming, gossip_throughput.network."),
    ("bench --device emulated allreduce_fusion", 2, "--device: give options of allreduce_fusion after its name"),
    ("mutants --backend nccl --backend-option library=/nowhere/libnccl.so.2 --filter col.abort_is_local", 3,
     "'/nowhere/libnccl.so.2' is not on this machine"),
    ("mutants --component collectives --backend-option a=1", 2, "backend local has no options"),
    ("train --backend nccl", 2, "--backend nccl: it moves memory of devices alone"),
    ("check --backend nccl --device cuda:1", 2, "choose by --backend-option device=N"),
    ("check --backend nccl --backend-option gpu=1", 2, "no option 'gpu'; there are library, runtime, device and start_limit"),
    ("check --backend nccl --backend-option library=/nowhere/libnccl.so.2 --world-size 1", 3,
     "'/nowhere/libnccl.so.2' is not on this machine; install NCCL 2.18.1 or later"),
    ("train --bucket-size 25x", 2, "--bucket-size '25x' is not a number of bytes"),
    ("train --bucket-size 0", 2, "--bucket-size '0'"),
    ("train --compression int4", 2, "--compression 'int4'; it must be fp16, bf16, int8, int8-channel, powersgd[:RANK[:START]]"),
    ("train --compression powersgd", 2, "compression 'powersgd' of a run by steps"),
    ("train --join all", 2, "--join is of training by names"),
    ("train --broadcast-buffers", 2, "--broadcast-buffers is of training by names"),
    ("train --model perceptron --compression powersgd:0", 2, "compression 'powersgd:0'; RANK is 1 or more"),
    ("train --model perceptron --pipeline 2 --compression int8", 2, "--compression 'int8' with --pipeline 2"),
    ("train --model perceptron --join some", 2, "join 'some'; it must be present, all"),
    ("train --model gpt --join all", 2, "--join 'all' with --data 'text'"),
    ("train --model perceptron --pipeline 1 --join all --static-graph", 2, "join 'all' with a static graph"),
    ("train --model perceptron --pipeline 2 --static-graph", 2, "--static-graph with --pipeline 2"),
    ("train --model perceptron --pipeline 1 --schedule zb-h1 --static-graph", 2, "--static-graph with --schedule 'zb-h1'"),
    ("bench --sizes 4x", 2, "--sizes '4x'"),
    ("bench --within 5 --launches 5", 2, "--launches 5: with --within it is 6 or more, which an interval takes"),
    ("bench --within 0", 2, "--within: '0' is not a part such as 5 or 5%, above 0 and at most 100%"),
    ("bench --within wide", 2, "--within: 'wide' is not a part such as 5 or 5%"),
    ("bench --within 101%", 2, "--within: '101%' is not a part such as 5 or 5%"),
    ("bench --sizes 1023Gi", 2, "--sizes 1023Gi"),
    ("bench --benchmark nope", 2, "--benchmark 'nope'"),
    ("bench --benchmark pipeline_bubble*", 2, "`plumbline bench pipeline_bubble` measures pipeline_bubble."),
    ("bench --world-size 1000", 2, "--world-size: 1000 ranks"),
    ("bench --min-time 1e300", 2, "'1e300' is not a number of seconds"),
    ("bench --benchmark allreduce_fusion.choice", 2, "`plumbline bench allreduce_fusion` measures allreduce_fusion.choice"),
    ("bench --repetitions 3 allreduce_fusion", 2, "--repetitions: give options of allreduce_fusion after its name"),
    ("bench allreduce_fusion --buckets 0", 2, "--buckets '0': 1 byte or more"),
    ("bench allreduce_fusion --buckets 25x", 2, "--buckets: '25x' is not a size in bytes"),
    ("bench allreduce_fusion --model alexnet", 2, "alexnet"),
    ("bench allreduce_fusion --rounds 0", 2, "'0' is not a whole number from 1"),
    ("bench allreduce_fusion --world-size 65", 2, "--world-size: 65 ranks; at most 64"),
    ("bench --repetitions 3 pipeline_bubble", 2, "--repetitions: give options of pipeline_bubble after its name"),
    ("bench pipeline_bubble --schedule nope", 2, "--schedule 'nope': no such schedule"),
    ("bench pipeline_bubble --schedule forward-only", 2, "--schedule forward-only: it trains nothing"),
    ("bench pipeline_bubble --stages 0", 2, "'0' is not a whole number from 1"),
    ("bench pipeline_bubble --stages 65", 2, "--stages: 65 ranks; at most 64"),
    ("bench pipeline_bubble --micro-batches 0", 2, "'0' is not a whole number from 1"),
    ("bench pipeline_bubble --schedule dualpipev --stages 4 --micro-batches 4", 2, "at least as many micro-batches"),
    ("bench pipeline_bubble --schedule interleaved --stages 2 --micro-batches 5", 2, "multiple of the rounds"),
    ("bench pipeline_bubble --durations F=-1", 2, "a duration is from 0 to 10 seconds, got 'F=-1'"),
    ("bench pipeline_bubble --durations F=0,I=0,W=0", 2, "a rank computes for more than 0 seconds in all, got 'F=0,I=0,W=0'"),
    ("bench pipeline_bubble --durations F=1,F=2", 2, "--durations: F appears twice"),
    ("bench pipeline_bubble --durations B=1", 2, "'B=1' is not F=SECONDS, I=SECONDS or W=SECONDS"),
    ("bench pipeline_bubble --durations F=x", 2, "--durations: 'x' is not a number"),
    ("bench pipeline_bubble --message-bytes=-1", 2, "--message-bytes: '-1' is not a size in bytes"),
    ("bench pipeline_bubble --device emulated", 2, "--device emulated: emulated stages only wait, for as long as a device would compute, and have no memory; it is for --libtorch"),
    ("bench pipeline_bubble --device cuda --libtorch --published", 2, "--published: with --device cuda LibTorch's stages alone are measured; emulated stages only wait"),
    ("bench pipeline_bubble --device tpu", 2, "'tpu' is not cpu, cuda, cuda:N, emulated or emulated:N"),
    ("bench allreduce_fusion --device emulated:9 --seconds 0.1", 2, "there is no emulated:9; this process has 2, from emulated:0"),
    ("bench pipeline_bubble --repetitions 0", 2, "'0' is not a whole number from 1"),
    ("requirements --format xml", 2, "--format 'xml'; it must be table"),
    ("requirements --profile nope", 2, "no profile 'nope'"),
    ("expectations check /nonexistent", 2, "cannot read '/nonexistent': there is no such file"),
    ("expectations check /dev", 2, "cannot read '/dev': it is a folder"),
    ("expectations update /nonexistent --file new.toml", 2, "no record '/nonexistent'"),
    ("expectations prune /dev/null --file /nonexistent", 2, "--file '/nonexistent'"),
    ("expectations update run.jsonl", 2, "--file is required"),
    ("gossip --graph grid", 2, "--graph: there is no 'grid'; there are directed-exponential"),
    ("gossip --graph ring --peers 3", 2, "--graph ring: ring: 3 peers in a round"),
    ("gossip --graph bipartite-linear --nodes 7", 2, "two sides need an even number"),
    ("gossip --nodes 0", 2, "'0' is not a whole number from 1 to 1048576"),
    ("gossip --nodes x", 2, "'x' is not a whole number from 1 to 1048576"),
    ("gossip --peers=-1", 2, "'-1' is not a whole number from 0 to"),
    ("gossip --seed x", 2, "'x' is not a whole number from 0 to 2^63-1"),
    ("gossip --graph mesh --nodes 6 --rows 4", 2, "--graph mesh: mesh: 4 rows of 6 nodes; rows divide the nodes"),
    ("gossip --graph star --nodes 4 --center 9", 2, "--graph star: star: center 9 of 4 nodes"),
    ("gossip --graph mesh --convention fairscale", 2, "--graph mesh: mesh: FairScale has no such graph"),
    ("gossip --mixing half", 2, "--mixing: there is no 'half'; there are uniform"),
    ("gossip --graph ring --mixing metropolis-hastings", 2, "each receiver must answer"),
    ("gossip --rounds -1", 2, "'-1' is not a whole number from 0 to 10000"),
    ("gossip --format pdf", 2, "--format: there is no 'pdf'"),
    ("gossip --convention bluefog", 2, "--convention: there is no 'bluefog'"),
    ("gossip --nodes 65 --format svg", 2, "--format svg: 65 nodes"),
    ("scaler --overflows 0", 2, "--overflows: step 0; there are 1 to 2100"),
    ("scaler --overflows 3,x", 2, "--overflows: 'x' is not a whole number"),
    ("scaler --overflows 13 --steps 12", 2, "--overflows: step 13; there are 1 to 12"),
    ("scaler --steps 0", 2, "'0' is not a whole number from 1 to 100000"),
    ("scaler --pattern .!x", 2, "--pattern: step 3 is 'x'; it must be . (clean) or ! (overflow)"),
    ("scaler --pattern=", 2, "--pattern"),
    ("scaler --pattern .! --overflows 1", 2, "--overflows excludes --pattern"),
    ("scaler --file /nonexistent", 2, "--file: cannot read '/nonexistent'"),
    ("scaler --scale x", 2, "--scale: 'x' is not a number"),
    ("scaler --scale nan", 2, "--scale: init_scale is nan; it must be finite and above 0"),
    ("scaler --growth-interval 0", 2, "--growth-interval: '0' is not a whole number from 1"),
    ("scaler --hysteresis 0", 2, "--hysteresis: '0' is not a whole number from 1"),
    ("scaler --min-scale 1e9", 2, "--min-scale: min_scale is 1000000000; it must be at most initial_scale, 65536"),
    ("scaler --max-scale 0.5", 2, "--max-scale: max_scale is 0.5; it must be above 1"),
    ("scaler --max-scale inf", 2, "--max-scale: max_scale is inf; it must be finite and above 0 in 32 bits"),
    ("scaler --max-scale nan", 2, "--max-scale: max_scale is nan; it must be finite and above 0 in 32 bits"),
    ("scaler --max-scale 1e39", 2, "--max-scale: max_scale is 1e+39; it must be finite and above 0 in 32 bits"),
    ("scaler --max-scale 64 --scale 128", 2, "--max-scale: max_scale is 64; it must be at least initial_scale, 128"),
    ("scaler --min-scale inf", 2, "--min-scale: min_scale is inf; it must be finite and above 0"),
    ("scaler --min-scale 1e-60", 2, "--min-scale: min_scale is 1e-60; it must be finite and above 0 in 32 bits"),
    ("scaler --scale inf", 2, "--scale: init_scale is inf; it must be finite and above 0"),
    ("scaler --published --scale 3", 2, "--published excludes --scale"),
    ("scaler --dialects torch,apex", 2, "--dialects: there is no 'apex'; there are torch"),
    ("scaler --tensor 2", 2, "--tensor requires --injection"),
    ("scaler --injection --steps 3", 2, "--injection excludes --steps"),
    ("scaler --injection --data 0", 2, "--data: '0' is not a whole number from 1 to 16"),
    ("scaler --injection --tensor 5 --data 4", 2, "40 ranks; there are 16 at most"),
    ("scaler --injection --value 3", 2, "--value: there is no '3'; there are inf, nan, both"),
    ("scaler --format pdf", 2, "--format: there is no 'pdf'; there are text, json, csv, svg"),
    ("gossip --graph complete --nodes 1048576", 2, "20 rounds of a complete of 1048576 nodes with 1048575 peers are 2.2e+13"),
    ("buckets", 2, "--gradients: it names no file"),
    ("buckets --gradients /nonexistent", 2, "--gradients: cannot read '/nonexistent'"),
    ("buckets --gradients /dev/null --limits 1x", 2, "--limits: '1x' is not a size in bytes"),
    ("buckets --gradients /dev/null --limits 99999999999GiB", 2, "--limits: '99999999999GiB'"),
    ("buckets --gradients /dev/null --rule x", 2, "--rule: there is no 'x'; there are torch, megatron"),
    ("buckets --gradients /dev/null --format png", 2, "--format: there is no 'png'"),
    ("pass", 2, "program is required"),
    ("pass /nonexistent", 2, "program: cannot read '/nonexistent'"),
    ("pass /dev/null", 2, "this is not JSON"),
    ("pass /dev/null --format svg", 2, "--format: there is no 'svg'"),
    ("pass /dev/null --convention torch", 2, "--convention: there is no 'torch'; there are plumbline, paddle"),
    ("pass /dev/null --max-fuse-numel=-1", 2, "--max-fuse-numel: -1 is negative"),
    ("pass /dev/null --max-overlap-rings=-1", 2, "--max-overlap-rings: -1 is out of range"),
    ("topology", 2, "--axes: it names no axis"),
    ("topology --axes , --dims 1,1", 2, "axis 0 of [, ] has an empty name"),
    ("topology --axes a", 2, "--dims: it has no size"),
    ("topology --axes a,,b --dims 1,2,3", 2, "axis 1 of [a, , b] has an empty name"),
    ("topology --axes a,b,a --dims 1,2,3", 2, "axis 'a' is twice in [a, b, a]"),
    ("topology --axes a\x01 --dims 1", 2, "the name of axis 0 is not printable"),
    ("topology --axes a,b --dims 2,0", 2, "axis 'b' must have a size of 1 or more, got 0"),
    ("topology --axes a,b --dims=-2,4", 2, "axis 'a' must have a size of 1 or more, got -2"),
    ("topology --axes a,b --dims 2,x", 2, "--dims: 'x' is not a whole number"),
    ("topology --axes a,b --dims 2,", 2, "--dims: '' is not a whole number"),
    ("topology --axes a,b --dims 2,99999999999", 2, "--dims: '99999999999' is more than an int holds"),
    ("topology --axes a,b --dims 65536,65536", 2, "a=65536 b=65536 from rank 0 has ranks that no int holds"),
    ("topology --axes a,b --dims 65536,16384", 2, "1073741824 ranks; at most 16777216"),
    ("topology --axes a,b --dims 2,3,4", 2, "2 axes [a, b] but 3 sizes [2, 3, 4]"),
    ("topology --axes a,b --dims 2", 2, "2 axes [a, b] but 1 sizes [2]"),
    ("topology --axes a --dims 2 --convention nope", 2, "--convention 'nope'; it must be deepspeed"),
    ("topology --axes pipe,expert --dims 2,2 --convention megatron", 2, "convention megatron has pipe"),
    ("topology --axes model,tp --dims 2,2 --convention colossalai", 2, "--axes model,tp: convention colossalai has pipe"),
    ("topology --axes class,data --dims 2,2 --convention deepspeed", 2, "'class'"),
    ("topology --axes a,b --dims 2,3 --rank 6", 2, "rank 6 is not in a=2 b=3 (ranks 0 to 5)"),
    ("topology --axes a,b --dims 2,3 --rank=-1", 2, "rank -1 is not in a=2 b=3"),
    ("topology --axes a,b --dims 2,3 --rank one", 2, "--rank: 'one' is not a whole number"),
    ("topology --axes a,b --dims 2,3 --ranks-per-node 0", 2, "--ranks-per-node 0: must be 1 to 6, the number of ranks"),
    ("topology --axes a,b --dims 2,3 --ranks-per-node 7", 2, "--ranks-per-node 7: must be 1 to 6, the number of ranks"),
    ("topology --axes a,b --dims 2,3 --ranks-per-node two", 2, "--ranks-per-node: 'two' is not a whole number"),
    ("topology --axes a,b --dims 2,3 --bytes a=1", 2, "--bytes: which bytes cross nodes needs --ranks-per-node"),
    ("topology --axes a,b --dims 2,3 --ranks-per-node 2 --bytes c=1", 2, "'c'"),
    ("topology --axes a,b --dims 2,3 --ranks-per-node 2 --bytes a", 2, "--bytes: 'a' is not AXIS=BYTES"),
    ("topology --axes a,b --dims 2,3 --ranks-per-node 2 --bytes a=-1", 2, "'-1' is not a whole number of bytes"),
    ("topology --axes a,b --dims 2,3 --ranks-per-node 2 --bytes a=nan", 2, "'nan' is not a whole number of bytes"),
    ("topology --axes a,b --dims 2,3 --ranks-per-node 2 --bytes a=0.5", 2, "'0.5' is not a whole number of bytes"),
    ("topology --axes a,b --dims 2,3 --ranks-per-node 2 --bytes a=1,a=2", 2, "axis 'a' appears twice in 'a=1,a=2'"),
    ("topology --axes a,b --dims 2,3 --format xml", 2, "--format 'xml'; it must be text, json or svg"),
    ("topology --axes a,b --dims 64,64 --format svg", 2, "--format svg: 4096 ranks; a picture of more than 512"),
    ("topology --axes a,b --dims 2048,1024 --format json", 2, "--format json: 2097152 ranks"),
    ("topology --axes a,b --dims 2,3 --compare", 2, "--axes a,b: convention plumbline has pipe"),
    ("topology --axes pp,dp --dims 2048,1024 --compare", 2, "--compare: 2097152 ranks"),
    ("topology --axes pipe,data --dims 2,3 --compare --format svg", 2, "--format svg: --compare has no picture"),
    ("topology --axes pipe,data --dims 2,3 --compare --rank 1", 2, "--rank excludes --compare"),
    ("topology --axes a,b --dims 2,3 --out /proc/nope", 3, "cannot write '/proc/nope'"),
    ("topology --axes a,b --dims 2,3 --out /nonexistent/grid.txt", 3, "cannot write '/nonexistent/grid.txt'"),
    ("topology --lint /nonexistent", 2, "--lint: cannot read '/nonexistent': there is no such file"),
    ("topology --lint /dev", 2, "--lint: cannot read '/dev': it is a folder"),
    ("topology --lint /dev/null", 2, "--lint '/dev/null': there is no creation in it"),
    ("topology --lint /dev/null --rule nope", 2, "nope"),
    ("topology --lint /dev/null --axes a", 2, "--axes excludes --lint"),
    ("topology --rule all_ranks", 2, "--rule requires --lint"),
    ("topology --partial DATA", 2, "--partial requires --lint"),
]
TRAINING_REFUSALS = [
    ("schedule", 2, "--name: it names no schedule"),
    ("schedule --name 1f1c --stages 4 --micro-batches 8", 2, "--name '1f1c': no such schedule; plumbline schedule --list names all; did you mean 1f1b?"),
    ("schedule --name zbh1 --stages 4 --micro-batches 8", 2, "did you mean zb-h1?"),
    ("schedule --name ZBVZeroBuble --stages 4 --micro-batches 8", 2, "did you mean zbv?"),
    ("schedule --name Interleaved1F1 --stages 4 --micro-batches 8", 2, "did you mean interleaved?"),
    ("schedule --name gpipe --micro-batches 8", 2, "--stages: it is missing"),
    ("schedule --name gpipe --stages 4", 2, "--micro-batches: it is missing"),
    ("schedule --name gpipe --stages 4 --micro-batches 0", 2, "--micro-batches: must be 1 or more, got 0"),
    ("schedule --name gpipe --stages 0 --micro-batches 8", 2, "--stages: must be 1 or more, got 0"),
    ("schedule --name gpipe --stages=-1 --micro-batches 8", 2, "--stages: must be 1 or more, got -1"),
    ("schedule --name gpipe --stages four --micro-batches 8", 2, "--stages: 'four' is not a whole number"),
    ("schedule --name gpipe --stages 4 --micro-batches 99999999999", 2, "more than an int holds"),
    ("schedule --name gpipe --stages 65536 --micro-batches 65536", 2, "make more than 8388608 computations"),
    ("schedule --name 1f1b --stages 1000000 --micro-batches 60", 2, "1000000 ranks of 1 stage and 60 micro-batches make more"),
    ("schedule --name gpipe --stages 1000000 --micro-batches 8", 2, "--format text explains 16384 ranks at most, got 1000000"),
    ("schedule --name gpipe --stages 4 --micro-batches 8 --chunks 2", 2,
     "--name 'gpipe' with --stages 4, --micro-batches 8, --chunks 2: gpipe: a rank has exactly 1 stage, got 2"),
    ("schedule --name zbv --stages 4 --micro-batches 8 --chunks 3", 2, "zbv: a rank has exactly 2 stages, got 3"),
    ("schedule --name v-half --stages 4 --micro-batches 8 --chunks 1", 2, "v-half: a rank has exactly 2 stages, got 1"),
    ("schedule --name auto --stages 4 --micro-batches 8 --chunks 3", 2, "auto: a rank has 1 or 2 stages, got 3"),
    ("schedule --name auto --stages 4 --micro-batches 8 --memory-limit 0", 2, "a memory limit of at least 1 activation, got 0"),
    ("schedule --name auto --stages 4 --micro-batches 8 --chunks 2 --memory-limit 4,4,1,4", 2,
     "--chunks 2, --memory-limit 4,4,1,4: auto: a rank with 2 stages needs a memory limit of at least 2 activations, got 1 on rank 2"),
    ("schedule --name auto --stages 4 --micro-batches 8 --memory-limit 4,4", 2, "one for each of 4, got 2"),
    ("schedule --name auto --stages 4 --micro-batches 8 --memory-limit=-1", 2, "--memory-limit: must be 0 or more, got -1"),
    ("schedule --name auto --stages 4 --micro-batches 8 --memory-limit much", 2, "--memory-limit: 'much' is not a whole number"),
    ("schedule --name auto --stages 64 --micro-batches 4096", 2, "make more than 131072 computations"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --rendezvous", 2, "--rendezvous: there are no messages to wait for"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --seed 3", 2, "--seed: only for --jitter; give --jitter, too"),
    ("schedule --name zb-h1 --stages 4 --micro-batches 8 --memory-limit 4", 2, "--memory-limit: 'zb-h1' has an order of its own"),
    ("schedule --name zb-h1 --stages 4 --micro-batches 8 --slots --format csv", 2, "--slots: they are text, got --format csv"),
    ("schedule --name gpipe --stages 4 --micro-batches 8 --chunks 0", 2, "--chunks: must be 1 or more, got 0"),
    ("schedule --name interleaved --stages 4 --micro-batches 9", 2, "9 micro-batches on 4 ranks make 2 rounds"),
    ("schedule --name dualpipev --stages 4 --micro-batches 4", 2, "at least as many micro-batches as stages"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --durations F=-1", 2, "--durations: a duration must be 0 or more, got '-1'"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --durations F=x", 2, "--durations: 'x' is not a number"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --durations F=nan", 2, "--durations: 'nan' is not a number"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --durations F=", 2, "--durations: '' is not a number"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --durations F=1,2,3", 2, "--durations: F has 3 entries"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --durations X=1", 2, "--durations: 'X' is not F, B, I or W"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --durations 1", 2, "--durations: '1' is not ACTION=SECONDS"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --durations F=1,F=2", 2, "--durations: F appears twice"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --latency=-1", 2, "--latency: a latency must be 0 or more, got '-1'"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --latency soon", 2, "--latency: 'soon' is not a number"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --bandwidth 0", 2, "--bandwidth: must be above 0 bytes per second, got '0'"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --message-bytes=-1", 2, "--message-bytes: a size must be 0 or more"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --stragglers 2=2", 2, "--stragglers: rank 2 is not from 0 to 1"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --stragglers 0=2,0=3", 2, "--stragglers: rank 0 appears twice in '0=2,0=3'"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --durations F=1e308", 2, "the sum of all times must be a number"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --durations F=1e304 --format trace", 2, "more microseconds than a number"),
    ("schedule --list --out nowhere", 2, "--list excludes --out"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --stragglers 1", 2, "--stragglers: '1' is not RANK=FACTOR"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --jitter=-1", 2, "--jitter: it must be 0 or more, got '-1'"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --seed=-1", 2, "--seed: must be 0 or more, got -1"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --lower nope", 2, "--lower 'nope'; it must be none, torch or plumbline"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --format xml", 2, "--format 'xml'; it must be text, csv, json, svg or trace"),
    ("schedule --name gpipe --stages 64 --micro-batches 8193 --format svg", 2, "--format svg: 1048704 computations; a picture of more"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --out /proc/nope", 3, "cannot write '/proc/nope'"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --format csv --out /nonexistent/a.csv", 3, "cannot write '/nonexistent/a.csv'"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --fifo", 2, "--fifo requires --check"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --layers /nonexistent", 2,
     "--layers: cannot read '/nonexistent': there is no such file"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --layers /dev/null", 2, "--layers: /dev/null:1:1: there is no line in it"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --layers /dev/null --durations F=1", 2, "excludes"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --partition uniform", 2, "--partition requires --layers"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --memory-bytes 5", 2, "--memory-bytes requires --layers"),
    ("schedule --check /dev/null --layers /dev/null", 2, "--layers excludes --check"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --format csv --latency 1", 2, "--latency: --format csv has the order of actions alone"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --format csv --rendezvous --lower torch", 2, "--rendezvous: --format csv"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --bandwidth 9", 2, "--bandwidth 9: messages have no size; give --message-bytes, too"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --message-bytes 9", 2, "--message-bytes 9: without --bandwidth"),
    ("schedule --check /nonexistent", 2, "--check: cannot read '/nonexistent': there is no such file"),
    ("schedule --check /dev", 2, "--check: cannot read '/dev': it is a folder"),
    ("schedule --check /dev/null", 2, "--check '/dev/null': schedule: no line has an action"),
    ("schedule --check /dev/null --stage-to-rank 0", 2, "--check '/dev/null': schedule: there is no line in it"),
    ("schedule --check /dev/null --name gpipe", 2, "--name excludes --check"),
    ("schedule --check /dev/null --format svg", 2, "--check: its report is text"),
    ("schedule --file /nonexistent", 2, "plumbline: --file: cannot read '/nonexistent': there is no such file"),
    ("schedule --file /dev/null", 2, "--file '/dev/null': schedule: no line has an action"),
    ("schedule --file /dev/null --name gpipe", 2, "--name excludes --file"),
    ("schedule --file /dev/null --check /dev/null", 2, "excludes"),
    ("schedule --file /dev/null --layers /dev/null", 2, "--layers excludes --file"),
    ("schedule --file /dev/null --forward-only", 2, "--forward-only requires --check"),
    ("schedule --name gpipe --stages 2 --micro-batches 2 --stage-to-rank 0,1", 2, "--stage-to-rank requires --file or --check"),
    ("train --model nope", 2, "model 'nope'; it must be mlp"),
    ("train --optimizer nope", 2, "optimizer 'nope'; it must be sgd"),
    ("train --data-parallel 0", 2, "'0' is not a whole number from 1"),
    ("train --data-parallel 5", 2, "must be a multiple of --data-parallel x --micro-batches = "),
    ("train --steps 0", 2, "'0' is not a whole number from 1"),
    ("train --steps 1000000", 2, "plumbline: --steps 1000000: the tensors of each step are named in the header of a rank's record, which has at most 100 MB; it must be at most "),
    ("train --pipeline 0", 2, "'0' is not a whole number from 1"),
    ("train --pipeline 2 --chunks 2", 2, "--chunks 2; it must be 1 with --schedule '1f1b'"),
    ("train --pipeline 2 --schedule nope", 2, "--schedule 'nope'; it must be one of gpipe"),
    ("train --pipeline 2 --data-parallel 1 --chunks 2 --schedule zbv --model conv --micro-batches 5 --batch 96", 2,
     "must be a multiple of --data-parallel x --micro-batches = "),
    ("train --averaging slomo", 2, "--averaging 'slomo'; it must be localsgd, post-localsgd, sgp, slowmo, diloco, or all"),
    ("train --averaging=", 2, "--averaging"),
    ("train --averaging sgp,sgp", 2, "--averaging names 'sgp' more than once"),
    ("train --slowmo-frequency 12", 2, "--slowmo-frequency needs --averaging"),
    ("train --averaging slowmo --slowmo-frequency 0", 2, "--slowmo-frequency: '0' is not a whole number from 1"),
    ("train --averaging localsgd --localsgd-frequency=-3", 2, "'-3' is not a whole number from 1"),
    ("train --averaging localsgd --localsgd-frequency 0", 2, "--localsgd-frequency: '0' is not a whole number from 1"),
    ("train --averaging localsgd --localsgd-frequency 2.5", 2, "'2.5' is not a whole number from 1"),
    ("train --averaging post-localsgd --localsgd-begin 0", 2, "--localsgd-begin: '0' is not a whole number from 1"),
    ("train --averaging all --ranks-per-node 0", 2, "--ranks-per-node: '0' is not a whole number from 1"),
    ("train --averaging diloco --slowmo-shards 0", 2, "--slowmo-shards: '0' is not a whole number from 1"),
    ("train --averaging diloco --slowmo-lr nan", 2, "--slowmo-lr nan; it must be a finite number"),
    ("train --averaging localsgd --slowmo-momentum 0.5", 2,
     "--slowmo-momentum has no effect on --averaging localsgd; it is for slowmo, diloco"),
    ("train --averaging slowmo --slowmo-momentum inf", 2, "--slowmo-momentum inf; it must be a finite number"),
    ("train --averaging slowmo --slowmo-lr much", 2, "--slowmo-lr"),
    ("train --averaging slowmo --slowmo-memory half", 2, "--slowmo-memory 'half'; it must be efficient or whole"),
    ("train --averaging slowmo --averaging-base adam", 2, "--averaging-base 'adam'; it must be localsgd, sgp, none"),
    ("train --averaging sgp --gossip-graph torus", 2, "--gossip-graph 'torus'; it must be directed-exponential"),
    ("train --averaging sgp --gossip-peers 7", 2, "--gossip-graph n-peer-exponential, gossip-peers 7: "),
    ("train --averaging sgp --gossip-peers=-1", 2, "--gossip-peers: '-1' is not a whole number from 0"),
    ("train --averaging sgp --gossip-graph ring --gossip-peers 3", 2, "--gossip-graph ring, gossip-peers 3: "),
    ("train --averaging sgp --gossip-graph phone-book", 2, "--gossip-graph 'phone-book'; it must be directed-exponential"),
    ("train --averaging sgp --data-parallel 3 --gossip-graph bipartite-linear", 2, "--gossip-graph bipartite-linear"),
    ("train --averaging sgp --data-parallel 3 --ranks-per-node 2", 2, "--ranks-per-node 2; it must divide the 3 ranks"),
    ("train --averaging sgp --lr-decay 0", 2, "--lr-decay 0; it must be a number above 0"),
    ("train --averaging sgp --lr-decay nan", 2, "--lr-decay nan; it must be a number above 0"),
    ("train --averaging sgp --lr-decay 1e30 --no-judge", 2,
     "--lr-decay 1e+30: the learning rate of step 2 is 1e+59, and float32's are from 1.17549e-38 to 3.40282e+38"),
    ("train --averaging localsgd --lr-decay 1e-20 --no-judge", 2, "the learning rate of step 2 is 1e-41"),
    ("train --averaging slowmo --gossip-graph ring", 2,
     "--gossip-graph has no effect on --averaging slowmo (slowmo over localsgd); it is for sgp, slowmo over sgp"),
    ("train --averaging slowmo,localsgd --push-pull", 2, "--push-pull has no effect on --averaging slowmo,localsgd"),
    ("train --averaging slowmo --averaging-base sgp --localsgd-frequency 2", 2,
     "--localsgd-frequency has no effect on --averaging slowmo (slowmo over sgp)"),
    ("train --averaging slowmo --average-at-slow-steps", 2, "--average-at-slow-steps has no effect on --averaging slowmo"),
    ("train --averaging slowmo --overlap", 2, "--overlap has no effect on --averaging slowmo"),
    ("train --averaging sgp --overlap-lag 2", 2, "--overlap-lag 2; it needs --overlap"),
    ("train --averaging sgp --overlap --overlap-lag -1", 2, "'-1' is not a whole number from 0"),
    ("train --averaging slowmo --slowmo-memory whole --slowmo-shards 2", 2,
     "--slowmo-shards has no effect on --slowmo-memory whole"),
    ("train --averaging sgp --precision amp", 2, "--precision amp with --averaging; it must be fp32, fp16 or bf16"),
    ("train --averaging sgp --precision fp8", 2, "--precision 'fp8'; it must be fp32, fp16, bf16, amp or amp-bf16"),
    ("train --averaging sgp --precision fp16,bf16", 2, "--precision 'fp16,bf16'; it must be"),
    ("train --averaging sgp --precision fp16 --loss-scale 8", 2, "--loss-scale with --averaging"),
    ("train --averaging sgp --tensor 2", 2, "--tensor with --averaging; parameters are averaged only of whole models"),
    ("train --averaging sgp --resume", 2, "--resume needs --checkpoints DIR"),
    ("train --averaging sgp --checkpoints d --checkpoint-steps 0", 2, "'0' is not a whole number from 1"),
    ("train --checkpoints d", 2, "--checkpoints is of training by names"),
    ("train --averaging sgp --margin 101", 2, "--margin 101; it must be 0 to 100 percent"),
    ("train --averaging sgp --margin nan", 2, "--margin nan; it must be 0 to 100 percent"),
    ("train --averaging sgp --seeds 0", 2, "'0' is not a whole number from 1"),
    ("train --averaging sgp --checkpoints /proc/nope", 3, "nothing can be written into '/proc/nope/seed1/sgp': No such file"),
    ("train --averaging sgp --checkpoints /dev/null", 3, "nothing can be written into '/dev/null/seed1/sgp': Not a directory"),
    ("train --averaging sgp --pipeline 2", 2, "--pipeline 2 with --averaging"),
    ("train --averaging sgp --device tpu", 2, "'tpu' is not cpu, cuda"),
    ("train --averaging sgp --backend mpi --device emulated", 2, "backend local serves memory of emulated devices"),
    ("train --averaging sgp --compression fp16", 2, "--compression with --averaging; no gradients are averaged there"),
    ("train --averaging sgp --record r", 2, "--record with --averaging"),
    ("train --averaging sgp --model perceptron", 2, "--averaging is of runs by steps"),
    ("train --averaging sgp --spec /dev/null", 2, "excludes"),
    ("train --averaging sgp --picture /proc/nope/p.svg --steps 2 --data-parallel 2 --no-judge", 3, "/proc/nope"),
    ("train --device tpu", 2, "'tpu' is not cpu"),
    ("train --spec /nonexistent", 2, "/nonexistent"),
    ("train --spec /dev/null --model mlp", 2, "--spec excludes --model"),
    ("train --out /proc/nope", 3, "/proc/nope"),
    ("train --model nope", 2, "or by names resnet50, resnet_small"),
    ("train --epochs 3", 2, "--epochs is of training by names: with --config, or --model resnet50"),
    ("train --spec /dev/null --epochs 3", 2, "excludes"),
    ("train --model perceptron --steps 3", 2, "--steps is of runs by steps; training by names has --epochs"),
    ("train --model perceptron --data text", 2, "--model 'perceptron' with --data 'text'; gpt takes text"),
    ("train --model perceptron --data mnist", 2, "--data 'mnist': there is no such folder; it is digits, text, or a folder"),
    ("train --model perceptron --data /nonexistent", 2, "--data '/nonexistent': there is no such folder"),
    ("train --model perceptron --data /dev/null", 2, "--data '/dev/null': there is no such folder"),
    ("train --model perceptron --data /dev", 2, "'/dev/data_batch_1.bin' cannot be read: No such file"),
    ("train --model gpt --data digits", 2, "--model 'gpt' with --data 'digits'; gpt takes text"),
    ("train --model lstm", 2, "mlp, conv, conv_norm, tied, pairs, transformer, moe, or by names resnet50, resnet_small, perceptron, gpt"),
    ("train --model resnet50 --text-batches 0", 2, "'0' is not a whole number from 1"),
    ("train --model gpt --most-digits many", 2, "'many' is not a whole number"),
    ("train --model perceptron --batch 10", 2, "plumbline: --batch 10; it must be a multiple of --micro-batches 4"),
    ("train --model perceptron --schedule zbv2 --chunks 2", 2, "schedule 'zbv2'; it must be gpipe"),
    ("train --model perceptron --schedule forward-only", 2, "schedule 'forward-only'; it must be gpipe"),
    ("train --model perceptron --schedule auto", 2, "schedule 'auto'; it must be gpipe"),
    ("train --model perceptron --schedule zbv", 2, "--chunks 1: "),
    ("train --model perceptron --schedule v-half --chunks 3", 2, "--chunks 3: "),
    ("train --model perceptron --schedule dualpipev --chunks 2 --pipeline 4 --batch 8", 2, "at least as many micro-batches as stages"),
    ("train --model perceptron --schedule interleaved --chunks 2 --micro-batches 5 --batch 5", 2, "5 micro-batches on 2 ranks"),
    ("train --model perceptron --schedule zb-h2 --chunks 2", 2, "--schedule 'zb-h2' with --pipeline 2"),
    ("train --model perceptron --chunks 2 --micro-batches 3 --batch 6", 2,
     "--micro-batches 3; it must be a multiple of --pipeline 2 with --chunks 2"),
    ("train --model perceptron --chunks 3 --micro-batches 4", 2, "chunks"),
    ("train --model resnet50 --chunks 4 --micro-batches 4", 2, "chunks"),
    ("train --model perceptron --pipeline 1000000 --chunks 1000000", 2, "--chunks 1000000; it must be such that"),
    ("train --model perceptron --micro-batches 0", 2, "'0' is not a whole number from 1"),
    ("train --model perceptron --accumulation 0", 2, "'0' is not a whole number from 1"),
    ("train --model perceptron --epochs 0", 2, "'0' is not a whole number from 1"),
    ("train --model perceptron --epochs 1e3", 2, "'1e3' is not a whole number"),
    ("train --model perceptron --epochs 99999999999", 2, "99999999999"),
    ("train --model perceptron --batch=-4", 2, "'-4' is not a whole number from 1"),
    ("train --model perceptron --epochs 2 --warmup-epochs 3", 2, "--warmup-epochs 3; it must be 0 to --epochs 2"),
    ("train --model perceptron --learning-rate 0", 2, "--learning-rate 0; it must be a finite number above 0"),
    ("train --model perceptron --learning-rate=-1", 2, "--learning-rate -1; it must be a finite number above 0"),
    ("train --model perceptron --learning-rate fast", 2, "fast"),
    ("train --model perceptron --seed=-1", 2, "-1"),
    ("train --model perceptron --data-parallel 65 --pipeline 1", 2, "65 ranks; at most 64"),
    ("train --model perceptron --optimizer sgd", 2, "--optimizer is of runs by steps"),
    ("train --model perceptron --record r", 2, "--record is of runs by steps"),
    ("train --model perceptron --no-judge", 2, "--no-judge is of runs by steps"),
    ("train --check --no-judge", 2, "--check excludes --no-judge"),
    ("train --model perceptron --check-updates 3", 2, "--check-updates needs --check"),
    ("train --model perceptron --check --check-updates 0", 2, "'0' is not a whole number from 1"),
    ("train --trace t.json", 2, "--trace is of training by names"),
    ("train --model perceptron --trace /nonexistent/t.json", 3, "cannot write '/nonexistent/t.json'"),
    ("train --model perceptron --trace /proc/nope", 3, "cannot write '/proc/nope'"),
    ("train --model perceptron --checkpoints /proc/nope", 3, "nothing can be written into '/proc/nope'"),
    ("train --model perceptron --checkpoints /dev/null", 3, "nothing can be written into '/dev/null'"),
    ("train --model perceptron --checkpoint-epochs 0", 2, "'0' is not a whole number from 1"),
    ("train --model perceptron --device cuda:x", 2, "'cuda:x' is not cpu"),
    ("train --device emulated:7", 2, "there is no emulated:7; this process has 2, from emulated:0"),
    ("train --model perceptron --device emulated:7", 2, "there is no emulated:7; this process has 2, from emulated:0"),
    ("train --model perceptron --backend nope", 2, "nope"),
    ("train --model perceptron --time-limit 0", 2, "--time-limit"),
    ("train --model perceptron --out /proc/nope", 3, "/proc/nope"),
    ("train --model resnet18", 2, "or by names resnet50"),
    ("train --model", 2, "--model"),
    ("train --config", 2, "--config"),
    ("train --config /", 2, "'/' cannot be read; it must be a TOML file"),
    ("train --model perceptron --schedule 1f1b --chunks 2", 2, "--schedule '1f1b' with --pipeline 2"),
    ("train --model perceptron --pipeline 80", 2, "--pipeline: 80 ranks; at most 64"),
    ("train --model perceptron --learning-rate nan", 2, "--learning-rate nan; it must be a finite number above 0"),
    ("train --model perceptron --resume", 2, "--resume needs --checkpoints DIR"),
    ("train --averaging sgp --checkpoint-steps 5", 2, "--checkpoint-steps needs --checkpoints DIR"),
    ("train --config /dev/null --model mlp", 2, "--config /dev/null --model mlp: model 'mlp'; it must be resnet50"),
    ("train --config /nonexistent", 2, "'/nonexistent' cannot be read"),
]


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_plumbline(self, *arguments, stdout=subprocess.PIPE, program=PLUMBLINE):
        # Runs write to results/ in their own folder.
        self.done = subprocess.run([program, *arguments], cwd=self.folder, stdout=stdout, stderr=subprocess.PIPE, text=True,
                                   timeout=60)
        return self.done.returncode

    def check_refusals(self, refusals):
        for arguments, status, words in refusals:
            with self.subTest(arguments):
                self.assertEqual(self.run_plumbline(*arguments.split()), status, self.done.stderr)
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertTrue(self.done.stderr.startswith("plumbline: "), self.done.stderr)
                self.assertIn(words, self.done.stderr)

    def test_refusals(self):
        self.check_refusals(REFUSALS)

    def test_no_module_is_built_without_a_torch_and_its_headers(self):
        torch = self.folder / "torch"
        (torch / "lib").mkdir(parents=True)
        python = self.folder / "python"

        def answers(words):
            python.write_text(f"#!/bin/sh\n{words}\n")
            python.chmod(0o755)
        answers("exit 1")
        self.check_refusals([(f"build-module training --torch {python}", 3, f"'{python}' imports no torch; pip install torch there")])
        answers(f"echo '{torch}'")
        self.check_refusals([(f"build-module training --torch {python}", 3, f"'{python}' imports no torch")])
        (torch / "lib/libtorch_cpu.so").touch()
        (torch / "version.py").write_text("__version__ = '9.8.7'\n")
        self.check_refusals([(f"build-module c10d --torch {python}", 3, f"the torch in '{torch}' has no headers")])

    def test_records_name_the_versions_of_suite_and_profile(self):
        self.run_plumbline("--version")
        suite = self.done.stdout.split()[1]
        case = ["--filter", "collectives.adapter.ring_sum[ranks=2]"]
        for command, profile in ((PASS, "collectives"), (["check", "--adapter", "reference", *case], "full"),
                                 (["mutants", "--filter", "col.drop_last_element"], "full"),
                                 (["bench", "--backend", "local", "--benchmark", "collectives.barrier", "--repetitions", "2", "--launches", "1"], "")):
            self.assertEqual(self.run_plumbline(*command, "--out", "out"), 0, self.done.stderr)
            header = json.loads((self.folder / "out/run.jsonl").read_text().splitlines()[0])
            self.assertEqual((header["suite_version"], header["profile"]), (suite, profile), command)
            if profile:
                self.assertRegex(header["profile_version"], r"^\d+\.\d+$")
                self.assertIn(f'name="profile_version" value="{header["profile_version"]}"', (self.folder / "out/junit.xml").read_text())
            else:
                self.assertNotIn("profile_version", header)

    @needs_training
    def test_refusals_of_train(self):
        self.check_refusals(TRAINING_REFUSALS)

    @needs_mpi
    def test_refusals_of_mpi(self):
        self.check_refusals([("check --backend mpi --backend-option nope=1", 2, "nope=1"),
                             ("check --backend mpi --backend-option threads=single --backend-option threads=single", 2,
                              "threads was given before"),
                             ("check --backend mpi --control-address nowhere", 2, "nowhere")])

    # HARNESS-022@f1e6
    def test_a_refusal_leaves_the_record_that_was_there(self):
        self.assertEqual(self.run_plumbline(*PASS, "--out", "out"), 0, self.done.stderr)
        before = (self.folder / "out/run.jsonl").read_bytes()
        self.assertEqual(self.run_plumbline("check", "--adapter", "/nonexistent", "--out", "out"), 3)
        self.assertEqual((self.folder / "out/run.jsonl").read_bytes(), before)
        self.assertEqual(sorted(os.listdir(self.folder / "out")), ["junit.xml", *METRICS, "run.jsonl"])

    # HARNESS-043@a975
    def test_an_adapter_that_crashes_once_is_a_flake(self):
        # It answers the greeting, and is gone at the first question; from its second start on it is right.
        adapter = shlex.join([PLUMBLINE, "adapter"])
        once = f"if [ -e ran ]; then exec {adapter}; fi; touch ran; head -n 1 | {adapter}"
        case = "collectives.adapter.ring_sum[ranks=2]"
        self.assertEqual(self.run_plumbline("check", "--adapter", once, "--filter", case, "--out", "out", "--no-control"), 1)
        results = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines() if '"result"' in line]
        self.assertEqual([result["verdict"] for result in results], ["crash", "flake"], self.done.stdout)
        self.assertEqual(results[1]["tries"], ["crash", "pass"])
        self.assertIn("closed its output", results[1]["reason"])

    # HARNESS-053@f62a
    def test_a_greeting_that_misspells_a_name_is_refused(self):
        greeting = '{"id":1,"result":{"protocol":1,"name":"n","version":"1","ops":["schedules.genrate"]}}'
        for options in ((), ("--list",)):
            self.assertEqual(self.run_plumbline("check", "--profile", "full", "--adapter", f"echo '{greeting}'", "--out", "out", *options), 3)
            self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
            self.assertIn("hello: there is no operation 'schedules.genrate'; did you mean schedules.generate?", self.done.stderr)

    def test_an_adapter_is_told_of_conventions_that_no_case_asks(self):
        greeting = '{"id":1,"result":{"protocol":1,"name":"n","version":"1","ops":["topology.grid"],"conventions":["deepspeed-0.6","torch"]}}'
        self.assertEqual(self.run_plumbline("check", "--profile", "full", "--adapter", f"echo '{greeting}'; cat > /dev/null",
                                            "--filter", "component:topology", "--out", "out"), 3)
        (line,) = [line for line in self.done.stdout.splitlines() if line.startswith("no case asks ")]
        self.assertRegex(line, "in convention deepspeed-0.6, torch, which it claims; cases ask them in .*deepspeed.*; did you mean deepspeed[?]")

    def test_an_adapter_may_have_operations_of_its_own(self):
        self.assertEqual(self.run_plumbline("check", "--profile", "full", "--adapter", self.adapter_of("topology.prime_factors", "x.reload"),
                                            "--filter", "component:topology", "--no-control", "--out", "out"), 0, self.done.stderr + self.done.stdout)

    def test_who_waits_for_a_greeting_is_told_for_whom(self):
        # The time limit is that of the greeting, too, but a program has 10 s to start.
        for options in ((), ("--list",)):
            self.assertEqual(self.run_plumbline("check", "--adapter", "exec sleep 60", "--time-limit", "1", "--out", "out", *options), 3)
            self.assertEqual(self.done.stderr.splitlines()[0],
                             "waiting for the greeting of adapter 'exec sleep 60', at most 10 s (--time-limit)")
            self.assertIn("hello: it gave no answer in 10.0 s", self.done.stderr)

    def test_a_case_that_goes_on_is_named_in_a_pipe(self):
        adapter = f"head -n 1 | {shlex.join([PLUMBLINE, 'adapter'])}; exec sleep 60"
        self.assertEqual(self.run_plumbline("check", "--adapter", adapter, "--filter", "collectives.adapter.ring_sum[ranks=2]", "--no-control",
                                            "--time-limit", "1", "--progress", "0.2", "--out", "out"), 1, self.done.stderr)
        self.assertRegex(self.done.stdout, r"\ncollectives.adapter.ring_sum\[ranks=2\] has been running for \d+ s \(0 of 1 done\)\n")

    def test_what_is_explained_can_be_run(self):
        backend = "  # on backend local; --backend NAME judges another"
        for id, *lines in (("SCHED-002", ("--adapter CMD ", "")), ("COLL-001", ("", backend), ("--adapter CMD ", "")),
                           ("TRAIN-006", ("", backend + "; needs module training"), ("--job CMD ", "  # needs module training"))):
            self.assertEqual(self.run_plumbline("explain", id), 0, self.done.stderr)
            found = re.findall(rf"(?m)^  (run it|      )     {re.escape(PLUMBLINE)} check (--\w+ CMD |)--profile [\w-]+ --filter {id}(.*)$", self.done.stdout)
            self.assertEqual(found, [("run it" if at == 0 else " " * 6, *line) for at, line in enumerate(lines)], self.done.stdout)

    def test_an_id_is_asked_for_in_any_case(self):
        for asked, spelt in (("coll-001", "COLL-001"), ("COL.drop_last_element", "col.drop_last_element"),
                             ("col-02", "COL-02"), ("HOLLOW.null", "hollow.null"),
                             ("Schedules.Partition.Even_Sizes", "schedules.partition.even_sizes")):
            with self.subTest(asked):
                self.assertEqual(self.run_plumbline("explain", spelt), 0, self.done.stderr)
                right = self.done.stdout
                self.assertEqual(self.run_plumbline("explain", asked), 0, self.done.stderr)
                self.assertEqual(self.done.stdout, right)
        self.assertEqual(self.run_plumbline("check", "--list", "--filter", "COLL-001"), 0, self.done.stderr)
        right = self.done.stdout
        self.assertEqual(self.run_plumbline("check", "--list", "--filter", "coll-001"), 0, self.done.stderr)
        self.assertEqual(self.done.stdout, right)
        (case, *_) = right.splitlines()
        for asked in (case, case.upper()):
            self.assertEqual(self.run_plumbline("check", "--list", "--filter", asked), 0, self.done.stderr)
            self.assertEqual(self.done.stdout, case + "\n")
            self.assertEqual(self.run_plumbline("explain", asked), 0, self.done.stderr)
        self.assertEqual(self.run_plumbline("mutants", "--list", "--filter", "coll-001"), 0, self.done.stderr)
        self.assertIn("COLL-001", self.done.stdout)
        self.check_refusals([("explain coll-001@0000", 2, "cites a sentence that has changed; it is COLL-001@")])

    def test_the_terms_of_a_requirement_are_explained(self):
        self.assertEqual(self.run_plumbline("explain", "COLL-054"), 0, self.done.stderr)
        self.assertIn("\n  term       member: A process of a group", self.done.stdout)
        self.assertNotIn("term       batch", self.done.stdout)
        self.assertEqual(self.run_plumbline("requirements", "--format", "md"), 0, self.done.stderr)
        headings = re.findall(r"(?m)^## (\w+)$", self.done.stdout)
        self.assertEqual(len(headings), len(set(headings)), "a component has one head")
        self.assertIn("## gossip\n\n| term | meaning |\n| --- | --- |\n| argument error | InvalidArgument, ", self.done.stdout)
        self.assertRegex(self.done.stdout, r"\n\| .* \|\n\n\| id \| level \|")
        self.assertEqual(self.run_plumbline("requirements", "--format", "json"), 0, self.done.stderr)
        terms = {row["id"]: row["terms"] for row in json.loads(self.done.stdout)}
        self.assertIn("member", terms["COLL-054"])
        self.assertNotIn("batch", terms["COLL-054"])

    def test_a_list_of_a_requirement_is_printed_as_one(self):
        self.assertEqual(self.run_plumbline("explain", "SCHED-116"), 0, self.done.stderr)
        self.assertIn(" if:\n    - a computation is missing, unknown, on a wrong rank or before its inputs;\n    - ", self.done.stdout)
        self.assertEqual(self.run_plumbline("requirements"), 0, self.done.stderr)
        self.assertIn(f" if:\n{'':19}- a computation is missing, ", self.done.stdout)
        self.assertEqual(self.run_plumbline("requirements", "--format", "md"), 0, self.done.stderr)
        self.assertIn(" if:<br>- a computation is missing, ", self.done.stdout)
        self.assertEqual(self.run_plumbline("requirements", "--format", "json"), 0, self.done.stderr)
        texts = {row["id"]: row["text"] for row in json.loads(self.done.stdout)}
        self.assertIn(" if:\n- a computation is missing, ", texts["SCHED-116"])

    def test_integers_of_an_adapter_are_integers(self):
        helper = Path(__file__).resolve().parents[1] / "subject/adapter/python"
        adapter = self.folder / "adapter.py"
        for first, wrong in ((0.5, "boundaries: 0.5 is no list of integer"), (1 << 32, "boundaries: 4294967296 is no list of integer"), (0.0, "")):
            adapter.write_text(f"import sys\nsys.path.insert(0, {str(helper)!r})\nimport plumbline_adapter\n"
                               "plumbline_adapter.serve('toy', '1', {'schedules.partition_uniform':\n"
                               f"                         lambda **args: {{'boundaries': [{first}, 3, 6, 8, 30]}}}})\n")
            self.run_plumbline("check", "--adapter", f"{sys.executable} {adapter}", "--no-control", "--profile", "pipeline",
                               "--filter", "SCHED-003", "--out", "out")
            self.assertIn(wrong, self.done.stdout)
            self.assertEqual("is no list of integer" in self.done.stdout, wrong != "", self.done.stdout)

    def test_a_function_of_an_adapter_may_take_any_field(self):
        helper = Path(__file__).resolve().parents[1] / "subject/adapter/python"
        code = f"import sys; sys.path.insert(0, {str(helper)!r}); import plumbline_adapter; plumbline_adapter.serve('toy', '1', {{'x.echo': lambda n, **more: [n, more]}})"
        done = subprocess.run([sys.executable, "-c", code], input='{"id":1,"op":"x.echo","args":{"n":1,"m":2}}\n', capture_output=True, text=True)
        self.assertEqual(json.loads(done.stdout), {"id": 1, "result": [1, {"m": 2}]}, done.stderr)

    def test_an_answer_without_its_content_is_told_in_words_of_ours(self):
        adapter = self.adapter_of("schedules.partition_uniform", "gossip.graph")
        source = self.folder / "adapter.py"
        source.write_text(source.read_text().replace("    print(", "    else: reply['result'] = {k: [] if isinstance(v, list) else {} if isinstance(v, dict) else v"
                                                     " for k, v in reply['result'].items()}\n    print("))
        self.run_plumbline("check", "--adapter", adapter, "--profile", "full", "--no-control", "--filter", "schedules.partition.chunks_in_turn*",
                           "--filter", "gossip.graph.levels[peers=1]", "--out", "out")
        record = (self.folder / "out/run.jsonl").read_text()
        self.assertIn("schedules.partition_uniform answers in another form: array index 0 is out of range: ", record)
        self.assertIn("gossip.graph answers in another form: key ", record)
        self.assertNotIn("json.exception", self.done.stdout + record)

    def test_a_requirement_that_fails_again_is_one_line(self):
        self.run_plumbline("check", "--mutant", "col.drop_last_element", "--filter", "COLL-001", "--world-size", "2", "--no-control", "--out", "out")
        words, failures = self.done.stdout, re.findall(r"(?m)^FAIL  .*$", self.done.stdout)
        self.assertEqual(words.count("      COLL-001 (must) "), 1, words)
        self.assertEqual(len(failures), 4, words)
        for again in failures[1:]:
            self.assertRegex(again, r": COLL-001(, COLL-\d+)* again(; the record has those that follow)?$")

    def test_a_mutant_is_explained_without_others(self):
        self.assertEqual(self.run_plumbline("explain", "col.drop_last_element"), 0, self.done.stderr)
        self.assertEqual(re.findall(r"(?m)^  mutant     (\S+):", self.done.stdout), ["col.drop_last_element"])
        self.assertEqual(self.run_plumbline("explain", "COLL-001"), 0, self.done.stderr)
        self.assertGreater(len(re.findall(r"(?m)^  mutant     (\S+):", self.done.stdout)), 1)

    def test_a_mutant_that_no_case_judges_is_said_to_be_so(self):
        run = ["check", "--mutant", "col.drop_last_element", "--world-size", "2", "--no-control", "--out", "out"]
        words = "col.drop_last_element violates COLL-001, of which no case ran; it shows in collectives."
        self.assertEqual(self.run_plumbline(*run, "--filter", "COLL-049"), 0, self.done.stdout + self.done.stderr)
        self.assertIn(words, self.done.stdout)
        self.run_plumbline(*run, "--filter", "COLL-001")
        self.assertNotIn(words, self.done.stdout)

    @unittest.skipUnless(WOVEN.exists(), "no woven build, which has the mutants that are edits")
    def test_a_failure_of_an_edit_names_the_program_that_has_it(self):
        self.assertEqual(self.run_plumbline("check", "--adapter", "reference", "--mutant", "top.question_column_major", "--filter",
                                            "topology.map.single_questions[shape=3x2]", "--no-control", "--out", "out", program=WOVEN), 1)
        self.assertIn(f"repeat: {WOVEN} check --adapter reference", self.done.stdout)

    def checkout(self):
        """A folder with this program in build/bin, and a woven one beside it where there is one."""
        for program in (Path(PLUMBLINE), WOVEN):
            if program.exists():
                beside = self.folder / "build" / program.relative_to(Path(PLUMBLINE).parent.parent)
                beside.parent.mkdir(parents=True)
                shutil.copy(program, beside)
        (self.folder / "build/lib").symlink_to(Path(PLUMBLINE).parent.parent / "lib")
        (self.folder / "build/share").symlink_to(Path(PLUMBLINE).parent.parent / "share")
        return "build/bin/plumbline"

    def test_what_a_product_lacks_is_said_to_be_in_the_woven_build_beside_it(self):
        program = self.checkout()
        self.assertEqual(self.run_plumbline("explain", "amp.below_min", program=program), 0, self.done.stderr)
        self.assertIn("run it: build/woven/bin/plumbline mutants --filter amp.below_min\n", self.done.stdout)
        self.run_plumbline("mutants", "--list", "--filter", "amp.below_min", program=program)
        self.assertIn(", in build/woven/bin/plumbline alone: " if WOVEN.exists() else ", in a woven build alone: ", self.done.stdout)
        self.assertEqual(self.run_plumbline("mutants", "--filter", "amp.below_min", program=program), 3)
        self.assertIn("which the woven build has: run build/woven/bin/plumbline" if WOVEN.exists() else
                      "which a woven build has: pip install tree-sitter", self.done.stderr)

    def test_a_command_to_be_run_names_the_program_as_it_was_called(self):
        failing = ["check", "--mutant", "col.drop_last_element", "--filter", "COLL-001", "--world-size", "2", "--fail-fast", "--no-control", "--out", "out"]
        for called, path, words in ((self.checkout(), "/usr/bin:/bin", "build/bin/plumbline"),
                                    (str(self.folder / "build/bin/plumbline"), f"{self.folder}/build/bin:/usr/bin:/bin", "plumbline"),
                                    ("plumbline", f"{self.folder}/build/bin:/usr/bin:/bin", "plumbline")):
            with self.subTest(called, path=path), mock.patch.dict(os.environ, PATH=path):
                self.assertEqual(self.run_plumbline(*failing, program=called), 1, self.done.stderr)
                self.assertIn(f"      repeat: {words} check --backend local --mutant col.drop_last_element", self.done.stdout)
                lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
                commands = [line["repeat"] for line in lines if line["type"] == "result" and line["verdict"] == "fail"]
                self.assertRegex("\n".join(commands), "^plumbline check --backend local --mutant col.drop_last_element",
                                 "a record does not depend on where the program is")
                self.run_plumbline("explain", "COLL-001", "--record", "out", program=called)
                self.assertIn(f" repeat: {words} check --backend local", self.done.stdout)
                self.run_plumbline("explain", "COLL-001", program=called)
                self.assertIn(f"\n  run it     {words} check --profile", self.done.stdout)

    def test_a_bug_is_explained(self):
        self.assertEqual(self.run_plumbline("explain", "COL-02"), 0, self.done.stderr)
        head, *lines = self.done.stdout.splitlines()
        self.assertRegex(head, r"^COL-02 \(real bug\): \w.*\.$")
        self.assertRegex(self.done.stdout, r"\n  reported\n +\S+[#@]\w+ \(https://github.com/")
        self.run_plumbline("requirements", "--format", "json")
        citing = [row["id"] for row in json.loads(self.done.stdout) if any(re.match(r"COL-02\b", source) for source in row["source"])]
        self.assertGreater(len(citing), 2)
        self.assertEqual([line.split()[2] for line in lines if line.startswith("  forbidden by ")], citing)

    def test_an_optional_requirement_is_said_to_be_one(self):
        words = "  may        it is optional: the MUST is for a subject that claims it\n"
        for id, count in (("SCHED-010", 1), ("SCHED-002", 0)):
            self.assertEqual(self.run_plumbline("explain", id), 0, self.done.stderr)
            self.assertEqual(self.done.stdout.count(words), count, id)

    def test_a_record_without_verdicts_explains_nothing(self):
        self.assertEqual(self.run_plumbline("bench", "--benchmark", "collectives.barrier", "--repetitions", "2", "--min-time", "0.001", "--out", "out"), 0)
        self.check_refusals([("explain COLL-001 --record out", 2, "--record: 'out' is a record of plumbline bench, without a verdict on any requirement"),
                             ("explain COL-02 --record out", 2, "--record: 'out' is a record of plumbline bench")])
        self.assertEqual(self.run_plumbline(*PASS, "--out", "checked"), 0, self.done.stderr)
        self.check_refusals([("explain COL-02 --record checked", 2, "--record: a record has no verdict on bug COL-02; give a requirement")])
        self.assertEqual(self.run_plumbline("explain", "COLL-001", "--record", "checked"), 0, self.done.stderr)
        self.assertIn(": not in this record\n", self.done.stdout)

    def test_a_benchmark_that_cannot_begin_prints_no_table(self):
        for arguments in (["--device", "emulated:7", "--sizes", "4"], ["--device", "emulated", "--backend", "plugin:./none.so"],
                          ["allreduce_fusion", "--device", "emulated:7"], ["pipeline_bubble", "--device", "emulated:7"]):
            self.assertNotEqual(self.run_plumbline("bench", *arguments), 0)
            self.assertEqual(self.done.stdout, "", arguments)

    def test_the_letters_of_a_closed_form_are_explained(self):
        for name, chunks, words in (("1f1b", "1", "p: ranks; tF, tB: seconds of one micro-batch on a rank"),
                                    ("zb-h1", "1", "p: ranks; tF, tI, tW: seconds of one micro-batch on a rank"),
                                    ("interleaved", "2", "p: ranks; v: chunks of a rank; tF, tB: seconds of one micro-batch on a rank, in its 2 chunks together"),
                                    ("zbv", "2", "p: ranks; tF: seconds of one micro-batch on a rank, in its 2 chunks together")):
            self.assertEqual(self.run_plumbline("schedule", "--name", name, "--stages", "4", "--chunks", chunks, "--micro-batches", "8"), 0, self.done.stderr)
            self.assertRegex(self.done.stdout, f"\nclosed form: .*: equal\n{re.escape(words)}\n")
            self.run_plumbline("schedule", "--name", name, "--stages", "4", "--chunks", chunks, "--micro-batches", "8", "--format", "svg")
            self.assertEqual(" s, of times of all chunks of a rank" in self.done.stdout, chunks != "1")

    def test_one_of_a_thing_is_no_plural(self):
        (self.folder / "g.csv").write_text("name,elements\na,4\n")
        for arguments in ("gossip --graph ring --nodes 8 --peers 1 --rounds 1", "gossip --graph complete --nodes 1", "schedule --name forward-only --stages 1 --micro-batches 1",
                          "buckets --gradients g.csv", "scaler --pattern . --steps 1",
                          "bench --benchmark collectives.barrier --repetitions 1 --min-time 0.001"):
            self.assertEqual(self.run_plumbline(*arguments.split()), 0, self.done.stderr)
            self.assertNotRegex(self.done.stdout, r"(?<![\d.])(?<!of )1 [a-z-]+s\b", arguments)

    def test_gossip_explains_its_words(self):
        self.assertEqual(self.run_plumbline("gossip", "--help"), 0)
        words = self.done.stdout.split("Words of the text:\n")[1]
        self.run_plumbline("gossip", "--graph", "star", "--nodes", "4", "--mixing", "metropolis-hastings", "--rounds", "1")
        for word in ("regular", "dynamic", "shares", "weights", "distance", "spectral gap", "round, error"):
            self.assertRegex(words, rf"(?m)^  {word} ")
            self.assertRegex(self.done.stdout, word.replace(", ", " +").replace("dynamic", "dynamic|static"))

    def test_a_hollow_subject_is_explained(self):
        self.assertEqual(self.run_plumbline("explain", "hollow.null"), 0, self.done.stderr)
        self.assertIn("hollow.null (hollow subject, for --adapter): every result is null\n", self.done.stdout)
        self.assertIn(f"  run it     {PLUMBLINE} mutants --full --filter hollow.null\n", self.done.stdout)

    def test_a_case_that_the_budget_does_not_try_again_is_shown(self):
        # Its first case crashes; the second one never ends, so that nothing is tried again.
        adapter = shlex.join([PLUMBLINE, "adapter"])
        job = f"if [ -e ran ]; then head -n 1 | {adapter}; exec sleep 600; fi; touch ran; head -n 1 | {adapter}"
        self.assertEqual(self.run_plumbline("check", "--adapter", job, "--filter", "collectives.adapter.ring_sum*", "--budget", "8",
                                            "--no-control", "--out", "out"), 1, self.done.stderr)
        self.assertIn("CRASH collectives.adapter.ring_sum[ranks=2]", self.done.stdout)
        self.assertIn("1 case was not tried again: the run ended before that", self.done.stdout)

    @needs_mpi
    def test_a_driver_that_fails_inside_the_users_job_says_so_in_its_reports(self):
        # As rank 0 of 1: the record is open when the address is refused.
        self.assertEqual(self.run_plumbline(*PASS, "--out", "out"), 0, self.done.stderr)
        rank = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}
        done = subprocess.run([PLUMBLINE, "check", "--backend", "mpi", "--control-address", "nowhere", "--out", "out"], cwd=self.folder,
                              env=dict(os.environ, **rank), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 2, done.stderr)
        (message,), complete = self.said("out")
        self.assertIn("the run failed: ", message)
        self.assertIn("planned cases have no result", message)
        self.assertEqual(complete, {"0"} if METRICS else set())

    @needs_mpi
    def test_a_usage_error_of_a_job_is_one_of_its_first_rank(self):
        # Started without mpirun, which ends all ranks with the first that fails.
        command = [PLUMBLINE, "check", "--backend", "mpi", "--backend-option", "nonsense=1", "--out", "out"]
        ranks = [subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=dict(os.environ, OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2")) for rank in range(2)]
        output = [rank.communicate(timeout=120)[0] for rank in ranks]
        self.assertEqual(ranks[0].returncode, 2, output)
        self.assertIn(ranks[1].returncode, (2, 3), output)  # 3: the driver had gone before it was there

    def said(self, folder):
        """What the reports in a folder say of their run: the errors of its suite, and whether metrics count it as complete."""
        (suite,) = [one for one in ElementTree.parse(self.folder / folder / "junit.xml").getroot() if one.get("name").startswith("plumbline run (")]
        complete = {line.split()[-1] for name in METRICS for line in (self.folder / folder / name).read_text().splitlines()
                    if line.startswith("plumbline_run_complete{")}
        return [error.get("message") for error in suite.iter("error")], complete

    # HARNESS-030@75ec
    def test_reports_are_of_this_run_or_say_that_it_has_not_finished(self):
        def finished():
            self.assertEqual(self.run_plumbline(*PASS, "--out", "out"), 0, self.done.stderr)
            self.assertEqual(self.said("out"), ([], {"1"} if METRICS else set()))

        def unfinished(words, folder="out"):
            (message,), complete = self.said(folder)
            self.assertIn(words, message)
            self.assertEqual(complete, {"0"} if METRICS else set())

        finished()
        with self.assertRaises(ValueError, msg="har.stale_report: what an earlier run left"):
            unfinished("")
        ends = [("check --adapter /nonexistent", 3, "the run failed: "), ("check --filter nope", 2, "the run failed: --filter 'nope'"),
                ("check --backend mpi --control-address nowhere" if "mpi" in MODULES else "check --backend nope", None, "the run failed: "),
                ("bench --device emulated:7", None, "the run failed: "),
                ("check --budget 0.001 --filter collectives.barrier*", 3, "the budget of 0.001 s is spent before any case has run; ")]
        for command, status, words in ends:
            for folder in ("out", "fresh"):
                with self.subTest(command, folder=folder):
                    if folder == "out":
                        finished()
                    ended = self.run_plumbline(*command.split(), "--out", folder)
                    self.assertIn(ended, (2, 3) if status is None else (status,), self.done.stderr)
                    unfinished(words, folder)
        (message,), _ = self.said("fresh")
        self.assertRegex(message, r"; ([1-9]\d*) of \1 planned cases have no result")
        finished()
        with subprocess.Popen([PLUMBLINE, "check", "--out", "out"], cwd=self.folder, stdout=subprocess.DEVNULL) as process:
            for _ in range(600):
                errors, complete = self.said("out")
                if errors and "1" not in complete:  # one report is replaced after the other
                    break
                time.sleep(0.05)
            process.kill()
        unfinished("the run has not finished")

    # HARNESS-030@75ec
    def test_a_command_line_that_is_refused_leaves_no_report_of_an_earlier_run(self):
        refused = [["check", "--out", "out", "--frobnicate"], ["check", "--jobs", "65", "--out=out"], ["check", "--time-limit", "nan", "--out", "out"],
                   ["check", "--budget", "--out", "out"], ["--frobnicate", "check", "--out", "out"], ["check", "--out", "out", "--world-size", "2,"],
                   ["bench", "--out", "out", "--repetitions", "0"], ["bench", "--repetitions", "3", "pipeline_bubble", "--out", "out"],
                   ["bench", "allreduce_fusion", "--rounds", "0", "--out", "out"], ["mutants", "--filter", "nope", "--out", "out"],
                   ["train", "--steps", "0", "--out", "out"], ["merge", "--out", "out"]]
        for command in refused:
            with self.subTest(command):
                self.assertEqual(self.run_plumbline(*PASS, "--out", "out"), 0, self.done.stderr)
                self.assertEqual(self.said("out")[0], [])
                self.assertEqual(self.run_plumbline(*command), 2, self.done.stderr)
                (message,), complete = self.said("out")
                self.assertTrue(message.startswith("the run failed: "), message)
                self.assertIn(message.removeprefix("the run failed: "), self.done.stderr)
                self.assertEqual(complete, {"0"} if METRICS else set())
        # What follows the folder is an argument of the command: records that are read keep their reports.
        self.assertEqual(self.run_plumbline(*PASS, "--out", "shard"), 0, self.done.stderr)
        self.assertEqual(self.run_plumbline("merge", "--out", "out", "shard", "nothere", "--frobnicate"), 2)
        self.assertEqual(self.said("shard")[0], [])
        self.assertFalse((self.folder / "nothere").exists())
        self.assertIn("the run failed: ", self.said("out")[0][0])
        # A list of cases is no run.
        self.assertEqual(self.run_plumbline("check", "--list", "--frobnicate", "--out", "shard"), 2)
        self.assertEqual(self.said("shard")[0], [])

    def runs(self):
        """The folders that runs without --out have made, and where the links lead, by name."""
        runs, latest = self.folder / "results/runs", self.folder / "results/latest"
        return (sorted(os.listdir(runs)) if runs.exists() else [],
                {name: os.readlink(latest / name).removeprefix("../runs/") for name in os.listdir(latest)} if latest.exists() else {})

    def test_runs_without_a_folder_keep_those_before_them(self):
        self.assertEqual(self.run_plumbline(*PASS), 0, self.done.stderr)
        (first,), links = self.runs()
        self.assertRegex(first, r"^20\d{6}T\d{6}Z-check-local$")
        self.assertEqual(links, {"check-local": first})
        self.assertIn(f"record: results/runs/{first}/run.jsonl (", self.done.stdout)
        before = {file.name: file.read_bytes() for file in (self.folder / "results/runs" / first).iterdir()}
        self.assertEqual(self.run_plumbline(*PASS, "--seed", "2"), 0, self.done.stderr)
        (_, second), links = self.runs()
        self.assertEqual(links, {"check-local": second})
        self.assertEqual(json.loads((self.folder / "results/latest/check-local/run.jsonl").read_text().splitlines()[0])["seed"], 2)
        self.assertEqual(before, {file.name: file.read_bytes() for file in (self.folder / "results/runs" / first).iterdir()})
        # --out is as it was: no folder and no link come of it.
        self.assertEqual(self.run_plumbline(*PASS, "--out", "out"), 0, self.done.stderr)
        self.assertEqual(self.runs(), ([first, second], links))

    def test_runs_of_one_second_have_a_folder_each(self):
        taken = {time.strftime("%Y%m%dT%H%M%SZ-check-local", time.gmtime(time.time() + ahead)) for ahead in range(60)}
        for name in taken:
            (self.folder / "results/runs" / name).mkdir(parents=True)
        running = [subprocess.Popen([PLUMBLINE, *PASS], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(3)]
        printed = [one.communicate(timeout=60)[0] for one in running]
        self.assertEqual([one.returncode for one in running], [0, 0, 0], printed)
        made, links = self.runs()
        made = set(made) - taken
        self.assertEqual(len(made), 3)
        # The first seconds that are free; names sort by age.
        self.assertEqual({name[16:] for name in made}, {"-check-local"})
        self.assertGreater(min(made), max(taken))
        self.assertIn(links["check-local"], made)
        for name in made:
            self.assertEqual(self.said(f"results/runs/{name}")[0], [])
            self.assertEqual(sum(f"record: results/runs/{name}/run.jsonl" in one for one in printed), 1)

    def test_a_run_that_is_refused_makes_no_folder_and_one_that_fails_does(self):
        refused = [["check", "--frobnicate"], ["check", "--filter", "nope"], ["check", "--resume"], ["check", "--list", "--filter", "nope"],
                   ["bench", "--benchmark", "nope"], ["bench", "allreduce_fusion", "--buckets", "0"], ["mutants", "--filter", "nope"],
                   ["canary", "--backend", "local", "--against", "nope"], *([["train", "--batch", "7", "--data-parallel", "2"]] if "training" in MODULES else [])]
        for command in refused:
            with self.subTest(command):
                self.assertEqual(self.run_plumbline(*command), 2, self.done.stderr)
                self.assertEqual(self.runs(), ([], {}))
        self.assertEqual(self.run_plumbline(*PASS), 0, self.done.stderr)
        before = self.runs()
        self.assertEqual(self.run_plumbline("check", "--list", *PASS[1:]), 0)
        self.assertEqual(self.run_plumbline("check", "--filter", "nope"), 2)
        self.assertEqual(self.runs(), before)
        self.assertEqual(self.said("results/latest/check-local")[0], [])
        # A subject that does not start is found out by a run: the link does not lead to what passed before.
        self.assertEqual(self.run_plumbline("check", "--budget", "0.001", *PASS[1:]), 3, self.done.stderr)
        self.assertIn("the budget of 0.001 s is spent", self.said("results/latest/check-local")[0][0])
        self.assertEqual(self.run_plumbline("check", "--adapter", "/nonexistent"), 3, self.done.stderr)
        self.assertIn("the run failed: ", self.said("results/latest/check-adapter")[0][0])

    @needs_mpi
    def test_ranks_of_the_users_job_share_the_folder_of_the_first(self):
        job = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", PLUMBLINE, "check", "--backend", "mpi", *PASS[1:]]
        for count in (1, 2):
            done = subprocess.run(job, cwd=self.folder, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            made, links = self.runs()
            self.assertEqual((len(made), links), (count, {"check-mpi": made[-1]}))
            self.assertEqual(self.said("results/latest/check-mpi")[0], [])

    def test_a_run_is_resumed_where_the_link_leads(self):
        self.assertEqual(self.run_plumbline(*PASS, "--resume"), 2)
        self.assertEqual(self.done.stderr, "plumbline: --resume: there is no record in 'results/latest/check-local'\n")
        self.assertEqual(self.run_plumbline(*PASS), 0, self.done.stderr)
        self.assertEqual(self.run_plumbline(*PASS), 0, self.done.stderr)
        before = self.runs()
        record = self.folder / "results/latest/check-local/run.jsonl"
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(lines[:-2]))  # without the end, and one result
        self.assertEqual(self.run_plumbline(*PASS, "--resume"), 0, self.done.stderr)
        self.assertIn(f"record: results/runs/{before[1]['check-local']}/run.jsonl (", self.done.stdout)
        self.assertEqual(self.runs(), before)
        self.assertIn('"resumed"', record.read_text())
        self.assertEqual(self.said("results/latest/check-local")[0], [])

    def test_a_folder_in_the_place_of_the_link_is_kept(self):
        older = self.folder / "results/latest/check-local"
        self.assertEqual(self.run_plumbline(*PASS, "--out", older), 0, self.done.stderr)
        record = (older / "run.jsonl").read_text()
        os.utime(older, (1767323045, 1767323045))
        writer = os.open(older, os.O_RDONLY)
        fcntl.flock(writer, fcntl.LOCK_EX)  # as a run that writes there does
        self.check_refusals([(" ".join(PASS), 3, "'results/latest/check-local' is being written by another run")])
        os.close(writer)
        self.assertFalse((self.folder / "results/runs").exists())
        self.assertEqual(self.run_plumbline(*PASS), 0, self.done.stderr)
        (kept, made), links = self.runs()
        self.assertEqual((kept, links), ("20260102T030405Z-check-local", {"check-local": made}))
        self.assertEqual((self.folder / "results/runs" / kept / "run.jsonl").read_text(), record)
        self.assertEqual(self.done.stderr, "plumbline: 'results/latest/check-local' is a link from now on; what was there is in "
                                           "'results/runs/20260102T030405Z-check-local'\n")

    def test_a_run_that_cannot_make_its_folder_says_so_in_a_line(self):
        results = self.folder / "results"
        results.touch()
        for command in (" ".join(PASS), "bench", "mutants", "canary --backend local --against local"):
            self.check_refusals([(command, 3, "cannot make folder 'results/latest': Not a directory; --out names another")])
        results.unlink()
        (results / "latest").mkdir(parents=True)
        (results / "latest/check-local").touch()
        self.check_refusals([(" ".join(PASS), 3, "'results/latest/check-local' is a file, and would be a link; move it away, or give --out")])
        (results / "latest/check-local").unlink()
        if os.geteuid() != 0:
            results.chmod(0o555)
            self.check_refusals([(" ".join(PASS), 3, "cannot make folder 'results/runs': Permission denied")])
            results.chmod(0o755)
        self.assertEqual(os.listdir(results / "latest"), [])

    def test_every_command_that_leaves_results_has_a_folder_of_its_own(self):
        commands = {"bench": ["bench", "--benchmark", "collectives.barrier", "--repetitions", "2", "--min-time", "0.001"],
                    "mutants": ["mutants", "--filter", "col.drop_last_element"],
                    "canary": ["canary", "--backend", "local", "--against", "local", "--world-size", "2", "--sizes", "4", "--dtypes", "f32",
                               "--operations", "all_reduce", "--launches", "1", "--min-time", "0.001", "--slower", "100"],
                    "pipeline_bubble": ["bench", "pipeline_bubble", "--schedule", "1f1b", "--stages", "2", "--micro-batches", "2", "--repetitions", "1"]}
        if "training" in MODULES:
            commands["train"] = ["train", "--steps", "2", "--no-judge"]
        for name, command in commands.items():
            with self.subTest(name):
                self.assertEqual(self.run_plumbline(*command), 0, self.done.stdout + self.done.stderr)
                made, links = self.runs()
                self.assertIn(links[name], made)
                self.assertRegex(links[name], f"^20\\d{{6}}T\\d{{6}}Z-{name}$")
                self.assertIn(f"results/runs/{links[name]}/", self.done.stdout)
                self.assertNotIn("results/latest", self.done.stdout)
        for name in ("check", *commands, "allreduce_fusion"):
            self.assertEqual(self.run_plumbline(*["bench"] * ("_" in name), name, "--help"), 0)
            words = " ".join(self.done.stdout.split())
            self.assertIn(f"default: a dated folder under results/runs; results/latest/{name}{'-SUBJECT' * (name == 'check')} links to it", words)

    def test_a_run_that_is_refused_is_reported_under_its_own_name_and_labels(self):
        for wrong in (["--jobs", "65"], ["--frobnicate"], ["--label", "verdict=x"]):
            with self.subTest(wrong):
                self.assertEqual(self.run_plumbline("check", *wrong, "--backend", "local", "--subject-name", "acme", "--label", "night=1",
                                                    "--device", "emulated", "--out", "out"), 2, self.done.stdout)
                junit = (self.folder / "out/junit.xml").read_text()
                self.assertIn('<property name="subject" value="acme"/>', junit)
                self.assertIn('<property name="label.night" value="1"/>', junit)
                self.assertIn('<property name="device" value="emulated"/>', junit)
                if METRICS:
                    complete = [line for line in (self.folder / "out/metrics.prom").read_text().splitlines() if line.startswith("plumbline_run_complete{")]
                    self.assertEqual(len(complete), 1)
                    for label in ('subject="acme"', 'night="1"', 'device="emulated"'):
                        self.assertIn(label, complete[0])

    # HARNESS-024@9879
    def test_a_time_limit_for_the_subject_does_not_shorten_that_of_the_reference(self):
        # It answers the greeting and no question; the reference needs more than a tenth of a millisecond.
        adapter = f"head -n 1 | {shlex.join([PLUMBLINE, 'adapter'])}; exec sleep 60"
        command = ["check", "--adapter", adapter, "--filter", "collectives.adapter.ring_sum[ranks=2]", "--time-limit", "0.0001", "--out", "out"]
        self.assertEqual(self.run_plumbline(*command), 1, self.done.stdout + self.done.stderr)
        results = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines() if '"result"' in line]
        self.assertEqual([(one.get("role", "subject"), one["verdict"]) for one in results], [("subject", "hang"), ("subject", "hang"), ("control", "pass")])
        self.assertEqual([one["limit_seconds"] <= 0.0001 for one in results], [True, True, False])
        self.assertEqual(["--time-limit" in one["repeat"] for one in results], [True, True, False])

    def adapter_of(self, *operations):
        """The command of an adapter that has those operations of the reference's alone."""
        asking = "import json, subprocess, sys\n" \
                 f"inner = subprocess.Popen([{PLUMBLINE!r}, 'adapter'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\n" \
                 "for line in sys.stdin:\n" \
                 "    inner.stdin.write(line); inner.stdin.flush()\n" \
                 "    reply = json.loads(inner.stdout.readline())\n" \
                 "    if 'ops' in reply.get('result', {}):\n" \
                 f"        reply['result']['ops'] = {operations!r}\n" \
                 "        reply['result'].pop('options', None)\n" \
                 "    print(json.dumps(reply), flush=True)\n"
        (self.folder / "adapter.py").write_text(asking)
        return f"{sys.executable} -B {self.folder / 'adapter.py'}"

    def test_an_adapter_is_held_to_the_profile_that_has_cases_for_it(self):
        adapter = self.adapter_of("topology.prime_factors")
        self.assertEqual(self.run_plumbline("check", "--adapter", adapter, "--out", "out"), 0, self.done.stdout + self.done.stderr)
        self.assertIn("cases of profile topology", self.done.stdout)
        self.assertIn("profile topology has the most cases for what the adapter claims; --profile NAME chooses another", self.done.stdout)
        self.assertLess(max(map(len, self.done.stdout.splitlines())), 200, "skipped requirements are counted, and not listed")
        self.assertRegex(self.done.stdout, r"requirements: \d+ of \d+ pass, \d+ of them with most of their cases skipped: "
                                            r"TOPO-015 pass \(\d+ of \d+ cases\).*; \d+ skip: \w+-\d+, \w+-\d+, \w+-\d+, …\n"
                                            r"skipped:\n  \d+ cases: \S.*\n")
        complete = json.loads((self.folder / "out/run.jsonl").read_text().splitlines()[-1])
        few = complete["requirements"]["TOPO-015"]
        self.assertEqual(few["verdict"], "pass")
        self.assertLess(2 * few["ran"], few["cases"])
        self.assertIn(f'<property name="cases" value="{few["ran"]} of {few["cases"]}"/>', (self.folder / "out/junit.xml").read_text())
        # One that is asked for holds, and says which ones have cases where it has none.
        self.assertEqual(self.run_plumbline("check", "--adapter", adapter, "--profile", "gossip", "--out", "out"), 3)
        self.assertRegex(self.done.stdout, r"nothing in profile gossip is for this subject; profiles that are: topology \(\d+ cases\)\n")
        # Why, with counts that come to all cases, and what would have them run.
        (skipped,) = re.findall(r"\nnothing was judged: (\d+) cases skipped\n", self.done.stdout)
        reasons = [(int(count), why) for count, why in re.findall(r"(?m)^  (\d+) cases?: (.*)$", self.done.stdout)]
        self.assertEqual(sorted(reasons, reverse=True, key=lambda reason: reason[0]), reasons)
        self.assertTrue(all(re.fullmatch("needs (operation|convention) .*, which the subject does not claim", why) for _, why in reasons), reasons)
        record = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        results = [line["reason"] for line in record if line["type"] == "result"]
        self.assertEqual(len(results), int(skipped))
        self.assertEqual([count for count, _ in reasons], [results.count(why) for _, why in reasons])
        self.assertIn("\na case runs where the adapter's greeting claims the operation, convention and option that it needs ", self.done.stdout)

    def on_a_full_disk(self, *arguments, most=100):
        def bound_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing fails in its place, as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        self.done = subprocess.run([PLUMBLINE, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=120, preexec_fn=bound_files)
        return self.done.returncode

    def test_a_full_disk_is_the_machines_fault_and_leaves_no_report_of_an_earlier_run(self):
        self.assertEqual(self.run_plumbline(*PASS, "--out", "out"), 0, self.done.stderr)
        for command in (PASS, ["bench", "--sizes", "4"], ["mutants", "--filter", "col.leaky_barrier"]):
            with self.subTest(command[0]):
                self.assertEqual(self.on_a_full_disk(*command, "--out", "out"), 3, self.done.stderr)
                self.assertIn("cannot write 'out/junit.xml': File too large", self.done.stderr)
                self.assertEqual(os.listdir(self.folder / "out"), ["run.jsonl"])

    @needs_training
    def test_training_on_a_full_disk_is_the_machines_fault(self):
        for options in (["--data-parallel", "2"], ["--data-parallel", "2", "--no-judge"]):
            with self.subTest(options):
                self.assertEqual(self.on_a_full_disk("train", "--steps", "20", *options, "--out", "out", most=1_000_000), 3, self.done.stdout + self.done.stderr)
                self.assertIn("cannot be written", self.done.stderr)

    def test_a_run_is_known_by_its_labels_and_the_name_of_its_subject(self):
        options = ["--label", "cluster=a", "--label", "night=1", "--subject-name", "acme", "--budget", "1000", "--warnings-fail"]
        self.assertEqual(self.run_plumbline(*PASS, *options, "--out", "out"), 0, self.done.stderr)
        header = json.loads((self.folder / "out/run.jsonl").read_text().splitlines()[0])
        self.assertEqual((header["labels"], header["subject_name"], header["budget_seconds"], header["warnings_fail"]),
                         ({"cluster": "a", "night": "1"}, "acme", 1000, True))
        root = ElementTree.parse(self.folder / "out/junit.xml").getroot()
        for suite in root:
            self.assertEqual({one.get("value") for one in suite.find("properties") if one.get("name") == "subject"}, {"acme"})
        self.assertEqual({suite.get("name") for suite in root}, {f"plumbline {part} (acme)" for part in ("run", "collectives", "requirements")})
        for suite in root:
            self.assertIn(("label.cluster", "a"), [(one.get("name"), one.get("value")) for one in suite.iter("property")])
        for case in root.iter("testcase"):
            if case.get("classname").startswith("collectives."):
                self.assertTrue((Path(__file__).parents[2] / case.get("file")).read_text().splitlines()[int(case.get("line")) - 1].strip().startswith("suite.add("))
        for name in METRICS:
            for line in (self.folder / "out" / name).read_text().splitlines():
                if not line.startswith("#"):
                    self.assertIn('cluster="a"', line)
                    self.assertIn('subject="acme"', line)

    def test_help_of_check_names_every_profile(self):
        self.assertEqual(self.run_plumbline("check", "--profile", "nope"), 2)
        profiles = self.done.stderr.split("there are ")[1].strip().split(", ")
        self.assertEqual(self.run_plumbline("check", "--help"), 0)
        for profile in profiles:
            self.assertRegex(self.done.stdout, rf"\b{profile}\b")

    def test_the_adapter_describes_its_operations_and_answers_their_examples(self):
        self.assertEqual(self.run_plumbline("adapter", "--describe"), 0, self.done.stderr)
        operations = [line.split()[0] for line in self.done.stdout.splitlines()]
        self.assertEqual(operations, sorted(operations))
        self.assertEqual(self.run_plumbline("adapter", "--describe", "--format", "json"), 0, self.done.stderr)
        self.assertEqual([one["name"] for one in json.loads(self.done.stdout)["operations"]], operations)
        self.assertEqual(self.run_plumbline("adapter", "--describe", "comm.ring_sum"), 0, self.done.stderr)
        self.assertIn("  world_size  integer ", self.done.stdout)
        self.assertIn('an adapter may have some values alone of dtype: "options" of its greeting names them', self.done.stdout)
        examples = []
        for operation in set(operations[::8]) - {"schedules.execute"}:  # whose answers have times that were measured
            self.assertEqual(self.run_plumbline("adapter", "--example", operation), 0, self.done.stderr)
            examples.append(self.done.stdout.splitlines())
        asked = "".join(request + "\n" for request, _ in examples)
        answers = subprocess.run([PLUMBLINE, "adapter"], input=asked, capture_output=True, text=True, timeout=60).stdout
        self.assertEqual(answers.splitlines(), [reply for _, reply in examples])

    # HARNESS-050@87f8
    def test_what_an_adapter_claims_is_asked_listed_and_recorded(self):
        source = Path(__file__).resolve().parents[1] / "subject/adapter/python/sample_adapter.py"
        adapter = f"{sys.executable} -B {source}"
        rings = "collectives.adapter.ring_sum[ranks=2]"
        self.assertEqual(self.run_plumbline("check", "--adapter", adapter, "--list"), 0, self.done.stderr)
        lines = self.done.stdout.splitlines()
        self.assertIn(rings, lines)
        self.assertIn("collectives.adapter.bad_lists[list=empty,ranks=1]  skip: needs operation comm.calls, which the subject "
                      "does not claim", lines)
        only_ours = "import runpy, plumbline_adapter as p; serve = p.serve; p.serve = lambda *a, conventions: serve(" \
                    "*a, conventions={'plumbline': '0.1'}); runpy.run_path('%s', run_name='__main__')" % source
        ours = f"PYTHONPATH={source.parent} {sys.executable} -B -c \"{only_ours}\""
        self.assertEqual(self.run_plumbline("check", "--adapter", ours, "--list", "--filter", rings), 0, self.done.stderr)
        self.assertEqual(self.done.stdout, rings + "  skip: needs convention gloo, which the subject does not claim\n")
        self.assertEqual(self.run_plumbline("check", "--adapter", adapter, "--filter", rings, "--out", "out"), 0,
                         self.done.stdout)
        record = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        subject = next(line for line in record if line["type"] == "subject")
        self.assertEqual(subject["name"], "plumbline sample")
        self.assertEqual(subject["version"], "1")
        self.assertEqual(subject["conventions"], {"gloo": "", "plumbline": ""})
        self.assertEqual(subject["operations"], ["comm.ring_sum"])
        self.assertEqual(subject["options"], {})

    def test_standard_output_that_is_full(self):
        for command in (PASS, ["requirements"], ["doctor"], TOPOLOGY, SCHEDULE, [*SCHEDULE, "--format", "csv"],
                        [*SCHEDULE, "--format", "trace"]):
            with self.subTest(command[0]), open("/dev/full", "w") as full:
                self.assertEqual(self.run_plumbline(*command, stdout=full), 3, self.done.stderr)
                self.assertIn("cannot write to standard output: No space left", self.done.stderr)

    def test_the_doctor_tells_of_gpus_and_of_kernels_for_them(self):
        self.assertEqual(self.run_plumbline("doctor"), 0, self.done.stderr)
        self.assertRegex(self.done.stdout, "\n(ok|no)  GPU  +(no CUDA driver|the CUDA driver )")
        self.assertRegex(self.done.stdout, r"\n(ok  GPU kernels  +built with CUDA \d+[.]|no  GPU kernels  +not built: )")

    def test_the_doctor_starts_ranks_only_where_it_is_told_to(self):
        def mpi(*options):
            self.assertEqual(self.run_plumbline("doctor", *options), 0, self.done.stderr)
            return next(line for line in self.done.stdout.splitlines() if line[4:].startswith("backend mpi"))
        if "mpi" in MODULES:
            self.assertRegex(mpi(), r"^ok  backend mpi +\S.*\d, a process per rank, started by \S.*\d; --start tries it$")
            self.assertRegex(mpi("--start"), r"^ok  backend mpi +\S.*\d, a process per rank; 2 were started by \S.*\d and met in a barrier$")
        program = self.without_module("mpi")
        self.assertEqual(self.run_plumbline("doctor", program=program), 0, self.done.stderr)
        self.assertNotRegex(self.done.stdout, "\nok  backend mpi")

    def test_the_plan_of_a_profile_is_listed_where_its_modules_are_missing(self):
        with_all = self.run_plumbline("check", "--profile", "full", "--list"), self.done.stdout
        self.assertEqual(with_all[0], 0, self.done.stderr)
        program = self.without_module("training")
        self.assertEqual(self.run_plumbline("check", "--profile", "full", "--list", program=program), 0, self.done.stderr)
        self.assertEqual(self.done.stdout, with_all[1])
        self.assertEqual(self.run_plumbline("check", "--profile", "full", "--out", "out", program=program), 3)

    def test_the_doctor_tells_what_the_record_tools_lack(self):
        python = self.folder / "pyth'on"
        rows = ("tool report             {} has jinja2\n", "tools compare, gate     {} has scipy\n", "tool trend              {} has ruptures\n",
                "tool export, parquet    {} has pyarrow\n")
        for lines, words in (("echo", "".join("ok  " + row for row in rows)),
                             ("echo pyarrow", "".join("ok  " + row for row in rows[:3]) + "no  tool export, parquet    {} lacks pyarrow; pip install it, or "),
                             ("echo scipy pyarrow", "no  tools compare, gate     {} lacks scipy; pip install it, or "),
                             ("exit 1", "no  record tools            '{}' does not start; set PLUMBLINE_PYTHON ")):
            python.write_text(f"#!/bin/sh\n{lines}\n")
            python.chmod(0o755)
            with mock.patch.dict(os.environ, PLUMBLINE_PYTHON=str(python)):
                self.assertEqual(self.run_plumbline("doctor"), 0, self.done.stderr)
            self.assertIn("\n" + words.replace("{}", str(python)), self.done.stdout)

    def test_the_doctor_finds_what_the_record_tools_find(self):
        # Packages in a folder of one's own, beside a Python without any; a module in the current folder is no package.
        python = self.folder / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
        python.chmod(0o755)
        own = self.folder / "own"
        for name in ("jinja2", "scipy", "ruptures"):
            (own / name).mkdir(parents=True)
            (own / name / "__init__.py").write_text("")
        (self.folder / "pyarrow.py").write_text("")
        with mock.patch.dict(os.environ, PLUMBLINE_PYTHON=str(python), PYTHONPATH=str(own)):
            self.assertEqual(self.run_plumbline("doctor"), 0, self.done.stderr)
        self.assertIn(f"\nok  tool trend              {python} has ruptures\nno  tool export, parquet    {python} lacks pyarrow; ", self.done.stdout)

    def test_the_doctor_tells_of_devices_with_memory(self):
        self.assertEqual(self.run_plumbline("doctor"), 0, self.done.stderr)
        self.assertIn("\nok  device emulated         emulated:0 emulated, 1.0 GiB; emulated:1 emulated, 1.0 GiB\n", self.done.stdout)
        self.assertRegex(self.done.stdout, r"\n(ok  device cuda  +cuda:0 |no  device cuda  +(there is no CUDA driver|the driver is for CUDA|the CUDA driver is here|not part of this build))")

    def results_of(self, *arguments, status=0):
        self.assertEqual(self.run_plumbline("check", *arguments, "--out", "out"), status, self.done.stdout + self.done.stderr)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        self.header = lines[0]
        return {line["case"]: line for line in lines if line["type"] == "result" and line.get("role") != "control"}

    def test_checks_run_on_memory_of_emulated_devices(self):
        options = ["--world-size", "2", "--filter", "collectives.all_reduce.exact", "--filter", "collectives.device.half_accumulation"]
        on_host = self.results_of(*options)
        skipped = [case for case, result in on_host.items() if result["verdict"] == "skip"]
        self.assertTrue(skipped and all(case.startswith("collectives.device.") for case in skipped), skipped)
        self.assertIn("needs a device with memory of its own (--device)", on_host[skipped[0]]["reason"])
        for device in ("emulated", "emulated:1"):
            results = self.results_of("--device", device, *options)
            self.assertEqual({result["verdict"] for result in results.values()}, {"pass"})
            self.assertIn(f"--device={device}", self.done.stdout)
            self.assertIn(device, json.dumps(self.header))

    def test_mutants_of_devices_are_found_there(self):
        results = self.results_of("--device", "emulated", "--mutant", "dev.half_accumulates_in_half", "--world-size", "3",
                                  "--filter", "collectives.device.half_accumulation", status=1)
        self.assertEqual({result["verdict"] for result in results.values()}, {"fail"})
        self.assertIn("--device emulated", next(iter(results.values()))["repeat"])

    def without_module(self, name):
        """The program of an installation that has all modules but one."""
        build = Path(PLUMBLINE).parent.parent
        there = self.folder / "installed"
        for folder in ("bin", "lib/plumbline", "share"):
            (there / folder).mkdir(parents=True)
        shutil.copy(PLUMBLINE, there / "bin")
        (there / "share/plumbline").symlink_to(build / "share/plumbline")
        for module in (build / "lib/plumbline").iterdir():
            if module.name != f"libplumbline_{name}.so" and not (name == "mpi" and module.is_dir()):
                (there / "lib/plumbline" / module.name).symlink_to(module)
        return there / "bin/plumbline"

    def test_mutants_leave_out_what_needs_a_module_that_is_not_here(self):
        program = self.without_module("training")
        ours, of_training = ("--filter", "col.drop_last_element"), ("--filter", "train.last_block_left_out")
        self.assertEqual(self.run_plumbline("mutants", *ours, *of_training, program=program), 3)
        self.assertIn("needs module training: ", self.done.stderr)
        self.assertEqual(self.run_plumbline("mutants", *ours, *of_training, "--without-missing", program=program), 0, self.done.stdout)
        self.assertIn("left out: 1 (a case needs module training: ", self.done.stdout)
        self.assertRegex(self.done.stdout, "OK: 1 of 1 mutants killed.*; 1 left out; ")
        self.assertEqual(self.run_plumbline("mutants", *of_training, "--without-missing", program=program), 3)
        self.assertIn("no mutant can run here; left out: 1 (", self.done.stderr)

    def test_a_gpu_that_is_not_there_is_said_of_each_case(self):
        self.run_plumbline("doctor")
        there = "\nok  device cuda" in self.done.stdout
        results = self.results_of("--device", "cuda:0", "--world-size", "2", "--filter", "collectives.all_reduce.exact", status=0 if there else 3)
        for result in results.values():
            self.assertEqual(result["verdict"], "pass" if there else "skip")
            if not there:
                self.assertIn("needs memory of cuda:0 (device cuda: ", result["reason"])
                self.assertRegex(self.done.stdout, r"nothing was judged: (\d+) cases? skipped\n  \1 cases?: needs memory of cuda:0 \(device cuda: ")

    def test_help_has_an_example_for_every_command(self):
        for command in COMMANDS:
            self.assertEqual(self.run_plumbline(*command.split(), "--help"), 0)
            self.assertIn("Example: ", self.done.stdout, command)
            self.assertEqual(self.done.stdout.count("Exit status: "), 1, command)

    def test_help_is_plain_english_in_lines_of_100_columns(self):
        for command in COMMANDS:
            self.assertEqual(self.run_plumbline(*command.split(), "--help"), 0)
            self.assertNotRegex(self.done.stdout, r"\b(TEXT|INT|UINT|FLOAT|Excludes|Needs|REQUIRED)\b", command)
            for line in self.done.stdout.splitlines():
                self.assertLessEqual(len(line), 100, f"{command}: {line}")
                self.assertEqual(list(check_prose.problems_of(line)), [], f"{command}: {line}")

    def test_help_gives_names_ranges_and_defaults(self):
        self.assertEqual(self.run_plumbline("check", "--help"), 0)
        for line in ("  --seed N                    random seed of inputs and delays (0 to 2^63-1; default 1)",
                     "  --job-launches-ranks        start the job once; it starts its ranks itself (requires --job)"):
            self.assertIn(line + "\n", self.done.stdout)
        self.assertEqual(self.run_plumbline("bench", "--help"), 0)
        self.assertRegex(self.done.stdout, r"--repetitions N +samples per benchmark, size and launch \(default 3, and 7 with\n +--launches 1; 1 or more\)\n")
        self.assertRegex(self.done.stdout, r"--sizes SIZE,\.\.\. +message sizes in bytes: 4,64Ki,16MiB \(default 4,1Ki,")

    def test_a_value_that_is_missing_is_named_as_in_the_help(self):
        for arguments, words in (("check --filter", "--filter: the value is missing; give --filter PATTERN"),
                                 ("topology --out", "--out: the value is missing; give --out FILE"),
                                 ("bench --min-time", "--min-time: the value is missing; give --min-time SECONDS")):
            self.assertEqual(self.run_plumbline(*arguments.split()), 2)
            self.assertIn(words, self.done.stderr)

    def test_gossip_lists_its_graphs(self):
        self.assertEqual(self.run_plumbline("gossip", "--list"), 0, self.done.stderr)
        header, *rows = self.done.stdout.splitlines()
        self.assertEqual(header.split(), ["graph", "name", "in", "FairScale", "peers", "of", "a", "node"])
        self.assertEqual(len(rows), 11)
        for row in rows:
            self.assertEqual(self.run_plumbline("gossip", "--graph", row.split()[0], "--rounds", "1"), 0, self.done.stderr)

    def test_the_command_that_repeats_a_failure_repeats_it(self):
        options = ["--mutant", "col.drop_last_element", "--filter", "COLL-001", "--world-size", "2", "--fail-fast"]
        self.assertEqual(self.run_plumbline("check", *options, "--out", "out"), 1, self.done.stderr)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        (failed,) = [line for line in lines if line["type"] == "result" and line["verdict"] == "fail"]
        program = failed["repeat"].split()[0]
        self.assertEqual(program, "plumbline")
        done = subprocess.run(failed["repeat"].replace(program, PLUMBLINE, 1), shell=True, cwd=self.folder,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f"FAIL  {failed['case']}", done.stdout)

    def verdicts(self, *arguments, status=0):
        """By case and arm, of a run or of a merge."""
        self.assertEqual(self.run_plumbline(*arguments, "--out", "out"), status, self.done.stderr)
        lines = map(json.loads, (self.folder / "out/run.jsonl").read_text().splitlines())
        return {(line["case"], line["arm"].split(":")[0]): line["verdict"] for line in lines
                if line["type"] == "result" and "role" not in line}

    # HARNESS-062@c30c
    def test_a_canary_finds_a_broken_library_by_itself(self):
        canary = ["canary", "--backend", "local", "--against", "local", "--world-size", "3", "--sizes", "4Ki", "--dtypes", "f32,bf16",
                  "--operations", "all_reduce,all_gather", "--launches", "1", "--min-time", "0.001", "--slower", "100", "--out", "out"]
        self.assertEqual(self.run_plumbline(*canary, "--same-bits"), 0, self.done.stdout + self.done.stderr)
        self.assertRegex(self.done.stdout, r"\nall_reduce +f32 +3 +4096  equal +0\.\d+ +0\.\d+ .* same, time not judged \(under 3 launches\)\n")
        self.assertRegex(self.done.stdout, r"order of all_reduce, 3 ranks, 4096 bytes: A sequential, \(0\+1\)\+2; B sequential, ")
        self.assertEqual([row["verdict"] for row in json.loads((self.folder / "out/canary.json").read_text())["rows"]], 2 * ["same, time not judged (under 3 launches)", "same"])
        # Both are broken alike.
        broken = "col.drop_last_element"
        self.assertEqual(self.run_plumbline(*canary, "--mutant", broken, "--against-mutant", broken), 1, self.done.stderr)
        self.assertRegex(self.done.stdout, r"\nall_reduce +f32 .* equal .* wrong: B: rank 0, element 1023: ")
        self.assertRegex(self.done.stdout, r"\nNOT OK: ")

    @needs_mpi
    def test_a_launcher_is_found_in_path_by_any_name(self):
        names = [name for name in ("mpiexec.mpich", "mpirun.mpich", "mpirun.openmpi", "orterun") if shutil.which(name)]
        if not names:
            self.skipTest("no launcher but mpirun and mpiexec is in PATH")
        for name in names:
            canary = ["canary", "--backend", "mpi", "--against", "mpi", "--against-launcher", name, "--world-size", "2", "--sizes", "64",
                      "--dtypes", "f32", "--operations", "broadcast", "--launches", "1", "--min-time", "0.001", "--out", name]
            self.assertEqual(self.run_plumbline(*canary), 0, self.done.stdout + self.done.stderr)
            self.assertEqual(self.run_plumbline("check", "--backend", "mpi", *PASS[1:], "--launcher", name), 0, self.done.stdout + self.done.stderr)
        self.assertEqual(self.run_plumbline("check", "--backend", "mpi", *PASS[1:], "--launcher", "ls"), 2)
        self.assertIn("--launcher ls: --version prints 'ls (", self.done.stderr)

    # HARNESS-060@252f
    def test_a_statement_is_made_of_a_whole_run_and_verified(self):
        adapter = self.adapter_of("topology.prime_factors")
        run = ["check", "--adapter", adapter, "--profile", "topology", "--statement"]
        self.assertEqual(self.run_plumbline("submit", "--template"), 0)
        (self.folder / "SUBJECT.toml").write_text(self.done.stdout.replace('"backend"', '"adapter"'))
        self.assertEqual(self.run_plumbline("submit", "r", "--subject", "SUBJECT.toml", "--out", "o"), 2)
        self.assertIn("SUBJECT.toml:2:10: 'vendor' must be a text that is not empty", self.done.stderr)
        (self.folder / "SUBJECT.toml").write_text('vendor = "Acme, Inc."\nproduct = "acme-ccl"\nversion = "2.4.1"\ntype = "adapter"\n'
                                                  'url = "https://example.com"\ncontact = "c@example.com"\n')
        submit = ["submit", "--subject", "SUBJECT.toml", "--out", "statement"]
        # What was run otherwise is no evidence.
        self.assertEqual(self.run_plumbline(*run[:-1], "--out", "plain"), 0, self.done.stdout + self.done.stderr)
        self.assertEqual(self.run_plumbline(*submit, "plain"), 1, self.done.stderr)
        self.assertIn("plain/run.jsonl: it is no run for a statement", self.done.stdout)
        self.assertFalse((self.folder / "statement").exists())
        # Shards with one fresh seed are.
        for part in (1, 2):
            self.assertEqual(self.run_plumbline(*run, "--seed", "4711", "--shard", f"{part}/2", "--out", f"run{part}"), 0,
                             self.done.stdout + self.done.stderr)
        self.assertEqual(self.run_plumbline(*run, "--out", "run1"), 2, "hours of evidence are not replaced")
        self.assertIn("--out 'run1': it has the record of a run for a statement", self.done.stderr)
        self.assertEqual(self.run_plumbline(*submit, "run2"), 1)
        self.assertIn("shard 1 of 2 is missing", self.done.stdout)
        self.assertEqual(self.run_plumbline(*submit, "run2", "run1"), 0, self.done.stdout + self.done.stderr)
        self.assertRegex(self.done.stdout, "acme-ccl 2.4.1 of Acme, Inc. conforms to profile topology .* of Plumbline .*: \\d+ of \\d+ MUST requirements pass, ")
        self.assertEqual(self.run_plumbline("verify", "statement"), 0, self.done.stdout)
        self.assertRegex(self.done.stdout, r"^OK: acme-ccl 2.4.1 .*; unsigned\n(note: the suite was built from commit .*\n)?$")
        self.assertEqual(self.run_plumbline("verify", "statement", "--date", "2099-01-01"), 1)
        self.assertRegex(self.done.stdout, "statement.json: it ended on ")
        statement = json.loads((self.folder / "statement/statement.json").read_text())
        outcomes = {line["requirement"].split("@")[0]: line["outcome"] for line in statement["predicate"]["requirements"]}
        self.assertIn("pass", outcomes.values())
        self.assertEqual(outcomes["TOPO-001"], "skip")
        if importlib.util.find_spec("in_toto_attestation"):  # from PyPI
            from google.protobuf import json_format
            from in_toto_attestation.v1 import statement as in_toto, statement_pb2
            in_toto.Statement.copy_from_pb(json_format.Parse(json.dumps(statement), statement_pb2.Statement())).validate()
        self.assert_tampering_is_found()

    def assert_tampering_is_found(self):
        """Each change of a file of the folder, with what `verify` says; of some the digests are made again, so that others must tell."""
        def replace(name, old, new):
            def change(folder):
                text = (folder / name).read_text()
                self.assertIn(old, text)
                (folder / name).write_text(text.replace(old, new, 1))
            return change

        def without_a_result(folder):
            lines = (folder / "run-1.jsonl").read_text().splitlines(keepends=True)
            lines.remove(next(line for line in lines if '"type":"result"' in line))
            (folder / "run-1.jsonl").write_text("".join(lines))

        def renewed(change):
            def both(folder):
                change(folder)
                digest = lambda name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
                text = (folder / "statement.json").read_text()
                for one in json.loads(text)["subject"]:
                    text = text.replace(one["digest"]["sha256"], digest(one["name"]))
                (folder / "statement.json").write_text(text)
                sums = folder / "SHA256SUMS"
                names = [line.split()[1] for line in sums.read_text().splitlines()]
                sums.write_text("".join(f"{digest(name)}  {name}\n" for name in names))
            return both

        page = replace("STATEMENT.html", "</title>", " </title>")
        life = replace("statement.json", '"valid_until": "2', '"valid_until": "3')
        verdict = replace("run-1.jsonl", '"verdict":"skip"', '"verdict":"pass"')
        ways = {
            "a page": (page, "STATEMENT.html: it was changed"),
            "a page, with new digests": (renewed(page), "STATEMENT.html: it does not say what the records prove"),
            "a verdict on a page": (replace("STATEMENT.md", "| not claimed |", "| pass |"), "STATEMENT.md: it was changed"),
            "a longer life": (life, "statement.json: it was changed"),
            "a longer life, with new digests": (renewed(life), "statement.json: it does not say what the records prove"),
            "a verdict in the record": (verdict, "run-1.jsonl: it was changed"),
            "the same, with new digests": (renewed(verdict), "is said to be a pass, and "),
            "a result less, with new digests": (renewed(without_a_result), "run-1.jsonl: the totals at its end are not those of its results"),
            "another suite, with new digests": (renewed(replace("run-2.jsonl", '"suite_version":"', '"suite_version":"9')), "run-2.jsonl: it is a run of suite "),
            "another environment": (replace("environment.json", "{", '{"lucky":"yes",'), "environment.json: it was changed"),
            "another product, with new digests": (renewed(replace("SUBJECT.toml", "2.4.1", "2.5.0")), "STATEMENT.md: it does not say what the records prove"),
            "a waiver": (replace("waivers.json", "[", '["mine"'), "waivers.json: it was changed"),
            "a shard less": (lambda folder: (folder / "run-2.jsonl").unlink(), "run-2.jsonl: it is missing"),
            "a way to repeat it": (replace("REPRODUCE.sh", "4711", "4712"), "REPRODUCE.sh: it was changed"),
            "a digest": (lambda folder: (folder / "SHA256SUMS").write_text(""), "run-1.jsonl: SHA256SUMS does not list it")}
        for what, (change, words) in ways.items():
            with self.subTest(what):
                folder = self.folder / "tampered"
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(self.folder / "statement", folder)
                change(folder)
                self.assertEqual(self.run_plumbline("verify", "tampered"), 1, self.done.stdout)
                self.assertIn(words, self.done.stdout)
                if "new digests" in what:
                    self.assertNotIn("it was changed: its SHA-256", self.done.stdout)

    # HARNESS-018@289c
    def test_shards_put_together_have_the_verdicts_of_the_whole(self):
        run = ["check", "--mutant", "col.drop_last_element", "--world-size", "2,3", "--filter", "collectives.all_reduce.exact*",
               "--filter", "collectives.barrier*", "--filter", "collectives.messages.*"]
        whole = self.verdicts(*run, status=1)
        parts = []
        for shard in ("1/2", "2/2"):
            parts.append(self.verdicts(*run, "--shard", shard, status=1))
            os.rename(self.folder / "out", self.folder / f"part{shard[0]}")
        self.assertTrue(all(0 < len(part) < len(whole) for part in parts))
        self.assertEqual(self.verdicts("merge", "part2", "part1", status=1), whole)
        self.assertEqual(self.run_plumbline("merge", "part1", "--out", "half"), 2)
        self.assertIn("part1/run.jsonl: shard 2 of 2 is missing", self.done.stderr)

    # HARNESS-004@df2f
    def test_verdicts_do_not_depend_on_the_order(self):
        run = ["check", "--world-size", "3", "--filter", "collectives.all_reduce.exact[dtype=f32*", "--filter", "collectives.barrier*",
               "--filter", "collectives.misuse*"]
        in_order = self.verdicts(*run)
        self.assertGreater(len(in_order), 5)
        for options in (["--shuffle", "1"], ["--shuffle", "2"], ["--isolate", "each", "--jobs", "2"]):
            self.assertEqual(self.verdicts(*run, *options), in_order, options)

    def expectations(self, text):
        (self.folder / "e.toml").write_text("schema = 1\n" + text)
        return self.run_plumbline("expectations", "check", "e.toml")

    def test_expectations_that_are_valid(self):
        entry = '[[expect]]\nid = "COLL-001"\nverdict = "fail"\nreason = "known"\n'
        self.assertEqual(self.expectations(entry + """when = 'world_size > 4 && dtype == "bf16"'\n"""), 0, self.done.stderr)
        self.assertEqual(self.done.stdout, "e.toml: 1 entry in 1 file, 0 expired\n")
        self.assertEqual(self.expectations(entry + 'until = "2020-01-01"\n'), 2)
        self.assertIn("expired: e.toml:2: 'COLL-001' counts no more: it was until 2020-01-01\n", self.done.stdout)

    def test_expectations_that_are_wrong(self):
        def entry(id="COLL-001", verdict="fail", more=""):
            return f'[[expect]]\nid = "{id}"\nverdict = "{verdict}"\nreason = "known"\n{more}\n'
        for text, words in (
                ("[[expect\n", "e.toml:2:9: "),
                (entry(more="colour = 1"), "e.toml:6:1: unknown field 'colour'"),
                (entry(verdict="fial"), "e.toml:4:11: verdict 'fial'; it is fail"),
                (entry(id="COLL-999"), "e.toml:3:6: id 'COLL-999' names no case"),
                (entry(more="when = 'colour == 1'"), "e.toml:6:8: when 'colour == 1', column 1: unknown name 'colour'"),
                (entry(more="when = 'world_size >'"), "column 13: "),
                (entry(verdict="skip-run"), 'write was = "hang" or "crash"'),
                (entry() + entry(verdict="hang"), "neither is more specific"),
                ('include = ["e.toml"]\n', "includes itself")):
            with self.subTest(words):
                self.assertEqual(self.expectations(text), 2)
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertIn(words, self.done.stderr)

    def test_expectations_follow_the_records(self):
        run = ["check", "--filter", "COLL-001", "--world-size", "2"]
        self.assertEqual(self.run_plumbline(*run, "--mutant", "col.drop_last_element", "--out", "wrong"), 1, self.done.stderr)
        self.assertEqual(self.run_plumbline(*run, "--out", "right"), 0, self.done.stderr)
        update = ["expectations", "update", "wrong/run.jsonl", "--file", "e.toml"]
        self.assertEqual(self.run_plumbline(*update, "--dry-run"), 0, self.done.stderr)
        self.assertIn("nothing written", self.done.stdout)
        self.assertFalse((self.folder / "e.toml").exists())
        self.assertEqual(self.run_plumbline(*update), 0, self.done.stderr)
        failed = [line for line in map(json.loads, (self.folder / "wrong/run.jsonl").read_text().splitlines())
                  if line["type"] == "result" and line["verdict"] == "fail"]
        text = (self.folder / "e.toml").read_text()
        ids = [line for line in text.splitlines() if line.startswith("id = ")]
        self.assertTrue(0 < len(ids) < len(failed), ids)
        self.assertTrue(all("world=2]" in line for line in ids), "other world sizes were not seen")
        self.assertEqual(self.run_plumbline(*update), 0, self.done.stderr)
        self.assertEqual((self.folder / "e.toml").read_text(), text, "a second time changes nothing")
        commented = text.replace("[[expect]]", "# why\n[[expect]]", 1).replace("schema", "# ours\nschema", 1)
        (self.folder / "e.toml").write_text(commented)
        prune = ["expectations", "prune", "right/run.jsonl", "--file", "e.toml"]
        self.assertEqual(self.run_plumbline(*prune, "--out", "pruned.toml"), 0, self.done.stderr)
        self.assertEqual((self.folder / "pruned.toml").read_text(), "# ours\nschema = 1\n")
        self.assertEqual((self.folder / "e.toml").read_text(), commented)
        (self.folder / "whole.toml").write_text('schema = 1\n[[expect]]\nid = "COLL-001"\nverdict = "fail"\nreason = "known"\n')
        self.assertEqual(self.run_plumbline("expectations", "prune", "right/run.jsonl", "--file", "whole.toml"), 1)
        self.assertIn("of its cases are not in the record", self.done.stdout)

    def test_a_line_of_a_record_that_is_no_json_is_named_by_its_place(self):
        (self.folder / "torn.jsonl").write_text('{"type": "header"\n')
        (self.folder / "bare.jsonl").write_text('{"type": "header", "schema": 1}\n')
        (self.folder / "known.toml").write_text("schema = 1\n")
        for command in (["merge", "torn.jsonl", "--out", "whole"], ["expectations", "update", "torn.jsonl", "--file", "known.toml"]):
            with self.subTest(command):
                self.assertEqual(self.run_plumbline(*command), 2, self.done.stderr)
                self.assertEqual(self.done.stderr, "plumbline: torn.jsonl:1: no JSON from byte 18 on; a run record has one JSON object a line\n")
        self.assertEqual(self.run_plumbline("merge", "bare.jsonl", "--out", "whole"), 2)
        self.assertIn("bare.jsonl:1: not a line of a run record: ", self.done.stderr)
        self.assertNotIn("[json", self.done.stderr)

    def test_expectations_that_cannot_be_read_stay_as_they_are(self):
        run = ["check", "--filter", "COLL-001", "--world-size", "2", "--mutant", "col.drop_last_element", "--out", "wrong"]
        self.assertEqual(self.run_plumbline(*run), 1, self.done.stderr)
        # A file that opens, and then does not let itself be read.
        self.assertEqual(self.run_plumbline("expectations", "update", "wrong/run.jsonl", "--file", "/proc/self/mem",
                                            "--out", "new.toml"), 2)
        self.assertIn("--file '/proc/self/mem': cannot read it", self.done.stderr)
        self.assertFalse((self.folder / "new.toml").exists())
        if os.geteuid() == 0:
            return  # for whom there is no file that is not theirs to read
        (self.folder / "e.toml").write_text("schema = 1\n")
        (self.folder / "e.toml").chmod(0o200)
        self.assertEqual(self.run_plumbline("expectations", "update", "wrong/run.jsonl", "--file", "e.toml"), 2)
        (self.folder / "e.toml").chmod(0o600)
        self.assertEqual((self.folder / "e.toml").read_text(), "schema = 1\n")

    def test_expectations_behind_a_link_keep_link_and_mode(self):
        run = ["check", "--filter", "COLL-001", "--world-size", "2", "--mutant", "col.drop_last_element", "--out", "wrong"]
        self.assertEqual(self.run_plumbline(*run), 1, self.done.stderr)
        (self.folder / "ours").mkdir()
        real, link = self.folder / "ours/real.toml", self.folder / "e.toml"
        real.write_text("schema = 1\n")
        real.chmod(0o640)
        link.symlink_to("ours/real.toml")
        self.assertEqual(self.run_plumbline("expectations", "update", "wrong/run.jsonl", "--file", "e.toml"), 0, self.done.stderr)
        self.assertTrue(link.is_symlink())
        self.assertIn("[[expect]]", real.read_text())
        self.assertEqual(real.stat().st_mode & 0o777, 0o640)

    @needs_training
    def test_an_expectation_hides_no_other_violation(self):
        def entry(id):
            return f'[[expect]]\nid = "{id}"\nverdict = "fail"\nreason = "known"\n'
        run = ["check", "--profile", "data-parallel", "--filter", "training.*single_device*", "--mutant",
               "col.drop_last_element", "--world-size", "3", "--expectations", "e.toml", "--out", "out"]
        (self.folder / "e.toml").write_text("schema = 1\n" + entry("TRAIN-006"))
        self.assertEqual(self.run_plumbline(*run), 1, self.done.stdout + self.done.stderr)
        results = [line for line in map(json.loads, (self.folder / "out/run.jsonl").read_text().splitlines())
                   if line["type"] == "result" and line["verdict"] == "fail"]
        violated = {id for line in results for id in line["violated"]}
        self.assertIn("TRAIN-006", violated)
        self.assertGreater(len(violated), 1)
        (self.folder / "e.toml").write_text("schema = 1\n" + "".join(map(entry, sorted(violated))))
        self.run_plumbline(*run, "--allow-unexpected-pass")
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        self.assertIn("TRAIN-", results[0]["reason"].splitlines()[0], "the first line says what was found")

    def test_expectations_of_another_subject_or_command(self):
        self.assertEqual(self.run_plumbline(*PASS, "--out", "out"), 0, self.done.stderr)
        (self.folder / "e.toml").write_text('schema = 1\nsubject = "acme >=2"\n')
        self.assertEqual(self.run_plumbline("expectations", "update", "out/run.jsonl", "--file", "e.toml"), 2)
        self.assertIn("e.toml:2: the expectations are of subject 'acme >=2', and this one is 'local ", self.done.stderr)
        self.assertEqual(self.run_plumbline("bench", "--sizes", "4", "--launches", "1", "--repetitions", "1", "--min-time", "0.001", "--out", "bench"), 0)
        self.assertEqual(self.run_plumbline("expectations", "update", "bench/run.jsonl", "--file", "e.toml"), 2)
        self.assertIn("is the record of plumbline bench", self.done.stderr)

    def test_coverage_has_every_requirement(self):
        self.assertEqual(self.run_plumbline("requirements", "--format", "json"), 0)
        ids = [row["id"] for row in json.loads(self.done.stdout)]
        self.assertEqual(self.run_plumbline("requirements", "--coverage"), 0, self.done.stdout)
        lines = self.done.stdout.splitlines()[1:-2]
        self.assertEqual([line.split()[0] for line in lines], ids)
        for line in lines:
            self.assertGreater(int(line.split()[3]), 0, line)

    def test_coverage_says_whom_each_requirement_can_judge(self):
        self.assertEqual(self.run_plumbline("requirements", "--format", "json"), 0)
        rows = {row["id"]: row for row in json.loads(self.done.stdout)}
        self.assertIn("backend", rows["COLL-001"]["subjects"])
        self.assertEqual(rows["TOPO-001"]["subjects"], ["adapter"])
        self.assertIn("job", rows["TRAIN-001"]["subjects"])
        self.assertEqual(rows["SLOWMO-180"]["subjects"], ["reference"], "memory of devices has no door")
        for subject, listed in (("adapter", ["--adapter", "reference"]), ("job", ["--job", "true"])):
            self.assertEqual(self.run_plumbline("check", "--list", "--profile", "full", *listed), 0, self.done.stderr)
            checks = {line.split("[")[0] for line in self.done.stdout.splitlines()}
            for name, row in rows.items():
                if checks & set(row["checks"]):
                    self.assertIn(subject, row["subjects"], f"{name} has a check that --{subject} lists")
        own = [name for name, row in rows.items() if row["subjects"] == ["reference"]]
        self.assertEqual(self.run_plumbline("requirements", "--coverage"), 0, self.done.stdout)
        words = self.done.stdout.splitlines()[-1]
        self.assertTrue(words.startswith(f"{len(own)} of them for no subject but the reference's own classes: "), words)
        self.assertEqual(sum(int(count) for count in re.findall(r" (\d+)(?:,|$)", words)), len(own), words)
        self.assertLessEqual(len(own), 60, "no other requirement may lose its door")

    def test_bench_lists_names_apart_from_their_words(self):
        self.assertEqual(self.run_plumbline("bench", "--list"), 0)
        for line in self.done.stdout.splitlines():
            self.assertRegex(line, r"^[a-z][a-z0-9_]*(\.[a-z0-9_-]+)+  +\S")

    def test_bench_lists_what_is_asked_for(self):
        self.assertEqual(self.run_plumbline("bench", "--list", "--benchmark", "collectives.all_*"), 0, self.done.stderr)
        names = [line.split()[0] for line in self.done.stdout.splitlines()]
        self.assertIn("collectives.all_reduce", names)
        self.assertTrue(all(name.startswith("collectives.all_") for name in names), names)

    def test_bench_measures_what_it_says(self):
        self.assertEqual(self.run_plumbline("bench", "--sizes", "0,4,1Ki", "--launches", "1", "--repetitions", "2", "--min-time", "0.001", "--out", "out"),
                         0, self.done.stderr)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        found = {(line["benchmark"], line["labels"].get("bytes")) for line in lines if line["type"] == "measurement"}
        self.assertIn(("collectives.all_reduce", "0"), found)
        self.assertIn(("collectives.all_reduce", "4"), found)
        self.assertIn(("collectives.reduce_scatter", "8"), found, "a rank's share is at least an element")
        self.assertTrue(all(len(line["samples"]) == 2 for line in lines if line["type"] == "measurement"))

    def test_bench_takes_launches(self):
        self.assertEqual(self.run_plumbline("bench", "--launches", "6", "--benchmark", "collectives.barrier", "--benchmark", "collectives.all_reduce",
                                            "--sizes", "4", "--world-size", "1,2", "--repetitions", "2", "--min-time", "0.0001", "--out", "out"),
                         0, self.done.stderr)
        self.assertIn("6 launches of 2 repetitions each", self.done.stdout)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        found = [line for line in lines if line["type"] == "measurement"]
        self.assertEqual(len(found), 4, "a line a series, whatever the launches")
        for line in found:
            self.assertEqual([len(launch["samples"]) for launch in line["launches"]], [2] * 6)
            self.assertEqual(line["samples"], [one for launch in line["launches"] for one in launch["samples"]])
            self.assertGreater(line["launches"][0]["host"]["calibration_seconds"], 0)
            medians = sorted(statistics.median(launch["samples"]) for launch in line["launches"])
            printed = [tuple(map(float, one)) for one in re.findall(r"\[([\d.]+), ([\d.]+)\]", self.done.stdout)]
            self.assertTrue(any(abs(low - medians[0] * 1e6) + abs(high - medians[-1] * 1e6) < 0.01 for low, high in printed),
                            f"of six, the interval is all of them: {medians} {printed}")
        metrics = self.folder / "out/metrics.prom"
        if "metrics" in MODULES:
            self.assertEqual("plumbline_benchmark_noisy{" in metrics.read_text(), True)
        self.assertEqual(self.run_plumbline("bench", "--launches", "1", "--require-quiet", "--benchmark", "collectives.barrier", "--repetitions", "1",
                                            "--out", "quiet"), 3 if "  noisy: " in self.done.stdout else 0)

    def test_bench_takes_several_launches_by_default(self):
        self.assertEqual(self.run_plumbline("bench", "--benchmark", "collectives.barrier", "--min-time", "0.0001", "--out", "out"), 0, self.done.stderr)
        found, = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines() if '"type":"measurement"' in line]
        self.assertEqual([len(launch["samples"]) for launch in found["launches"]], [3] * 6)
        self.assertRegex(self.done.stdout, r" us +\[[\d.]+, [\d.]+\] ", "six launches give the median an interval")
        self.assertEqual(self.run_plumbline("bench", "--benchmark", "collectives.barrier", "--min-time", "0.0001", "--launches", "1", "--out", "out"), 0)
        found, = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines() if '"type":"measurement"' in line]
        self.assertEqual([len(launch["samples"]) for launch in found["launches"]], [7])

    def measured_by_bench(self, *options):
        self.assertEqual(self.run_plumbline("bench", "--launches", "1", "--repetitions", "2", "--min-time", "0.001", *options, "--out", "out"), 0, self.done.stderr)
        return [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines() if '"type":"measurement"' in line]

    def test_bench_records_load_pinning_and_clock_of_the_host(self):
        for pins in (["--pin"], []):
            found, = self.measured_by_bench("--benchmark", "collectives.barrier", *pins)
            host = found["launches"][0]["host"]
            pinned = bool(pins) or len(os.sched_getaffinity(0)) == 1
            self.assertEqual(host["pinned"], 1 if pinned else 0)
            if "cpu MHz" in Path("/proc/cpuinfo").read_text():
                self.assertTrue(1e8 < host["clock_hertz"] < 1e10, host)
            (line,) = [line for line in self.done.stdout.splitlines() if line.startswith("host: ")]
            self.assertRegex(line, r"^host: load up to [\d.]+, up to [\d.]+ % of the time stolen(, clock from [\d.]+ GHz)?, ranks " +
                             ("pinned$" if pinned else "not pinned$"))
        header = json.loads((self.folder / "out/run.jsonl").read_text().splitlines()[0])
        source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        self.assertEqual(header["environment"]["clock_source"], source.read_text().strip() if source.exists() else "")

    def test_bench_begins_iterations_in_windows(self):
        command = ("bench", "--repetitions", "2", "--min-time", "0.001", "--benchmark", "collectives.all_reduce", "--sizes", "4,1Ki", "--sync", "window")
        for world, launches in (("1", "4"), ("2", "1")):
            status = self.run_plumbline(*command, "--world-size", world, "--launches", launches, "--out", f"of {world}")
            if status == 1 and "did all ranks begin in time: the host is too busy" in self.done.stdout and world == "2":
                continue
            self.assertEqual(status, 0, self.done.stdout + self.done.stderr)
            found = [json.loads(line) for line in (self.folder / f"of {world}/run.jsonl").read_text().splitlines() if '"type":"measurement"' in line]
            self.assertEqual(len(found), 2)
            for line in found:
                self.assertEqual(line["labels"]["sync"], "window", "a series apart from that of ranks which leave a barrier")
                self.assertEqual(len(line["launches"]), int(launches))
                for name in ("window_seconds", "windows_missed_ratio"):
                    of_launches = [launch["host"][name] for launch in line["launches"]]
                    self.assertEqual(line["derived"][name], max(of_launches), "the worst, not the last")
                    self.assertTrue(all(0 <= one < 1 for one in of_launches), "windows of half a second at most, and one was met")
                self.assertGreater(line["derived"]["window_seconds"], 0)
                self.assertTrue(line["answer_checked"])
        for line in self.measured_by_bench("--benchmark", "collectives.all_reduce", "--sizes", "4"):
            self.assertNotIn("sync", line["labels"])
        self.check_refusals([("bench --sync often", 2, "--sync: often not in {barrier,window}"),
                             ("bench --sync window --device emulated", 2, "--sync window: only with --device cpu; emulated times its streams by its own events")])

    def test_out_in_latest_is_a_new_run(self):
        check = ("check", "--backend", "local", "--filter", "COLL-001", "--world-size", "1", "--out", "results/latest/mine/")
        for _ in range(2):
            self.assertEqual(self.run_plumbline(*check), 0, self.done.stderr)
        runs = sorted((self.folder / "results/runs").iterdir())
        self.assertEqual(len(runs), 2, "nothing is written through the link")
        self.assertEqual((self.folder / "results/latest/mine").resolve(), runs[-1].resolve())
        junit = (runs[-1] / "junit.xml").read_text()
        self.assertEqual(self.run_plumbline("check", "--frobnicate", "--out", "results/latest/mine"), 2)
        self.assertEqual((runs[-1] / "junit.xml").read_text(), junit, "nor by a line that is rejected")

    def test_a_file_that_may_not_grow_is_an_error_of_writing(self):
        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
        done = subprocess.run([PLUMBLINE, "check", "--backend", "local", "--filter", "COLL-001", "--world-size", "1", "--out", "out"], cwd=self.folder,
                              capture_output=True, text=True, preexec_fn=limited)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("File too large", done.stderr)

    def test_metrics_say_how_far_a_run_is(self):
        if "metrics" not in MODULES:
            self.skipTest("built without prometheus-cpp")
        run = subprocess.Popen([PLUMBLINE, "check", "--backend", "local", "--profile", "gossip", "--filter", "gossip.thread.*", "--jobs", "1", "--out", "out"],
                               cwd=self.folder, stdout=subprocess.DEVNULL)
        passed, last = set(), ""
        while run.poll() is None:
            file = self.folder / "out/metrics.prom"
            last = file.read_text() if file.exists() else ""
            if "\nplumbline_run_complete{" in last and re.search(r"^plumbline_run_complete\{.*\} 0$", last, re.M):
                self.assertNotIn('verdict="missing"', last, "what has not run yet is no failure")
                passed.add(sum(int(one) for one in re.findall(r'^plumbline_cases\{.*verdict="pass".*\} (\d+)$', last, re.M)))
            time.sleep(0.02)
        self.assertEqual(run.returncode, 0)
        self.assertGreater(len(passed), 1, f"cases that had passed while it ran: {passed}")
        self.assertRegex((self.folder / "out/metrics.prom").read_text(), r"(?m)^plumbline_run_complete\{.*\} 1$")

    def test_bench_stops_where_the_median_is_known(self):
        def launches_of(*options):
            self.assertEqual(self.run_plumbline("bench", "--benchmark", "collectives.barrier", "--benchmark", "collectives.all_reduce", "--sizes", "4",
                                                "--world-size", "1,2", "--repetitions", "1", "--min-time", "0.0001", *options), 0, self.done.stderr)
            lines = (self.folder / "results/latest/bench/run.jsonl").read_text().splitlines()
            return [json.loads(line)["launches"] for line in lines if '"type":"measurement"' in line]

        for launches in launches_of("--within", "60%", "--launches", "12"):
            medians = [statistics.median(one["samples"]) for one in launches]
            # The lowest and the highest value of six to eight, the second ones of nine to eleven.
            def is_narrow(values):
                ordered, cut = sorted(values), 0 if len(values) < 9 else 1
                return len(values) >= 6 and ordered[-1 - cut] - ordered[cut] <= 0.6 * statistics.median(values)
            self.assertFalse(any(is_narrow(medians[:count]) for count in range(len(medians))), f"it goes on: {medians}")
            self.assertTrue(len(medians) == 12 or is_narrow(medians), f"it stops: {medians}")
        self.assertEqual([len(one) for one in launches_of("--launches", "8")], [8] * 4, "a fixed number, however near they are")
        self.assertEqual([len(one) for one in launches_of("--within", "0.01", "--launches", "7")], [7] * 4, "these are the most")
        self.assertIn("4 of 4 measurements are not within 0.01 %", self.done.stdout)

    def test_bench_says_that_the_host_is_busy(self):
        arguments = ("bench", "--launches", "1", "--benchmark", "collectives.barrier", "--world-size", "1", "--repetitions", "3", "--min-time", "0.02", "--out", "out")
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(6 * os.cpu_count())]
        try:
            self.assertEqual(self.run_plumbline(*arguments, "--require-quiet"), 3, self.done.stdout)
            self.assertIn("  noisy: ", self.done.stdout)
            self.assertEqual(self.done.stderr, "plumbline: 1 of 1 measurements are noisy: the host was too busy; repeat them on a quiet one\n")
            self.assertEqual(self.run_plumbline(*arguments), 0, "it is a remark where nobody asks for more")
        finally:
            for process in busy:
                process.kill()
                process.wait()

    def test_bench_in_launches_ends_in_time(self):
        self.assertEqual(self.run_plumbline("bench", "--launches", "1000", "--benchmark", "collectives.barrier", "--repetitions", "1",
                                            "--min-time", "0.001", "--budget", "2", "--out", "out"), 3)
        found, = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines() if '"type":"measurement"' in line]
        self.assertTrue(0 < len(found["launches"]) < 1000, "what was measured is kept")

    def test_records_are_compared(self):
        self.assertEqual(self.run_plumbline("results", "list", "--store", "no"), 2)
        self.assertIn("'no' is no folder", self.done.stderr)
        self.assertEqual(self.done.stderr.count("\n"), 1)
        without = {**os.environ, "PLUMBLINE_PYTHON": "/nowhere/python3"}
        done = subprocess.run([PLUMBLINE, "gate", "a", "b"], env=without, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn("gate: there is no program '/nowhere/python3'; install Python 3.9, or set PLUMBLINE_PYTHON to one", done.stderr)

    def bench_on(self, device, *options, status=0):
        self.assertEqual(self.run_plumbline("bench", "--device", device, "--sizes", "0,4,1Ki", "--launches", "1", "--repetitions", "2", "--min-time", "0.001",
                                            *options, "--out", "out"), status, self.done.stderr)

    def test_bench_measures_in_memory_of_devices(self):
        self.bench_on("emulated", "--world-size", "1,3", "--benchmark", "collectives.*", "--benchmark", "memory.copy")
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        found = [line for line in lines if line["type"] == "measurement"]
        self.assertEqual({line["labels"]["device"] for line in found}, {"emulated"})
        self.assertTrue(all(sample > 0 for line in found for sample in line["samples"]))
        self.assertTrue(all(line["answer_checked"] for line in found if line["labels"].get("bytes", "0") != "0"))
        names = {line["benchmark"] for line in found if line["labels"]["world"] == "3"}
        self.assertLess({"collectives.all_reduce", "collectives.send_recv", "collectives.barrier", "memory.copy"}, names)
        (subject,) = [line for line in lines if line["type"] == "subject"]
        self.assertEqual(subject["environment"]["device.runtime"], "emulated")

    def test_bench_measures_messages_between_many_and_unlike_blocks(self):
        self.assertEqual(self.run_plumbline("bench", "--benchmark", "messages.*", "uneven.*", "--sizes", "4,3Ki", "--world-size", "2,3",
                                            "--launches", "1", "--repetitions", "2", "--min-time", "0.001", "--out", "out"), 0, self.done.stderr)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        found = [line for line in lines if line["type"] == "measurement"]
        self.assertEqual(len(found), 6 * 2 * 2)
        self.assertTrue(all(line["answer_checked"] for line in found))

    def test_bench_measures_components_in_memory_of_devices(self):
        wanted = ["gossip_throughput.rounds.exchange_on", "gossip_throughput.rounds.confirmed", "gossip_throughput.step.slow_sgp.shards",
                  "scaler.unscale.bf16_to_f32", "scaler.agreement.resnet50.one_flag"]
        self.bench_on("emulated", "--benchmark", *wanted)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        found = [line for line in lines if line["type"] == "measurement"]
        self.assertEqual(len(found), 3 * 4 + 1)
        self.assertEqual({line["labels"]["device"] for line in found}, {"emulated"})
        for line in found:
            self.assertGreater(min(line["samples"]), 0)
            self.assertEqual(line["answer_checked"], line["labels"].get("bytes", "4") != "0" and ".step." not in line["benchmark"], line)

    def test_bench_fuses_gradients_in_memory_of_devices(self):
        self.assertEqual(self.run_plumbline("bench", "--device", "emulated", "--benchmark", "allreduce_fusion.resnet50.overlap", "--sizes", "25Mi",
                                            "--launches", "1", "--repetitions", "1", "--min-time", "0.001", "--out", "out"), 0, self.done.stderr)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        (found,) = [line for line in lines if line["type"] == "measurement"]
        self.assertEqual((found["derived"]["launches"], found["derived"]["copied_bytes"]), (4, 0))
        self.assertEqual(found["labels"]["device"], "emulated")
        self.assertTrue(found["answer_checked"])

    def test_bench_says_where_a_sum_on_a_device_is_wrong(self):
        self.bench_on("emulated:1", "--benchmark", "collectives.all_reduce", "--mutant", "dev.tail_dropped", status=1)
        self.assertIn("collectives.all_reduce: the answer is wrong on ", self.done.stdout)
        self.bench_on("emulated", "--benchmark", "gossip_throughput.rounds.all_reduce", "--mutant", "dev.tail_dropped", status=1)
        self.assertIn("gossip_throughput.rounds.all_reduce: the answer is wrong on ", self.done.stdout)

    @needs_mpi
    def test_bench_refuses_devices_that_the_backend_does_not_know(self):
        self.bench_on("emulated", "--backend", "mpi", status=2)
        self.assertIn("plumbline: --device emulated: backend mpi moves memory of cpu alone\n", self.done.stderr)

    def test_bench_says_what_is_missing_of_a_device(self):
        self.assertEqual(self.run_plumbline("doctor"), 0, self.done.stderr)
        if "\nok  device cuda" in self.done.stdout:
            return self.bench_on("cuda")
        self.bench_on("cuda", status=3)
        self.assertRegex(self.done.stderr, r"^plumbline: device cuda: .*\n$")

    def test_bench_measures_bubbles_beside_simulated_ones(self):
        self.assertEqual(self.run_plumbline("bench", "pipeline_bubble", "--schedule", "1f1b,zb-h1,1f1b", "--stages", "2,2", "--micro-batches",
                                            "4,4", "--repetitions", "2", "--durations", "F=0.001,I=0.001,W=0.001", "--out", "out"), 0,
                         self.done.stderr)
        self.assertIn("executor on 2 ranks: ", self.done.stdout)
        self.assertIn("measured over simulated makespan: median ", self.done.stdout)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        whole = {line["labels"]["schedule"]: line for line in lines
                 if line["type"] == "measurement" and line["benchmark"] == "pipeline_bubble"}
        self.assertEqual(set(whole), {"1f1b", "zb-h1"})
        self.assertIn(": 2 pipelines, 2 repetitions each", self.done.stdout)
        for name, simulated, bubble in (("1f1b", 0.015, 0.003), ("zb-h1", 0.013, 0.001)):
            line = whole[name]
            self.assertEqual(len(line["samples"]), 2)
            self.assertAlmostEqual(line["derived"]["simulated_seconds"], simulated)
            self.assertAlmostEqual(line["derived"]["closed_form_barrier_bubble_seconds"], bubble)
            # No device computes faster than it says.
            self.assertGreater(min(line["samples"]), 0.999 * simulated)
            self.assertEqual(sum(key.startswith("idle_") for key in line["derived"]), 8)
        ranks = [line for line in lines if line["type"] == "measurement" and line["benchmark"] == "pipeline_bubble.rank"]
        self.assertEqual(sorted((line["labels"]["schedule"], line["labels"]["rank"]) for line in ranks),
                         [("1f1b", "0"), ("1f1b", "1"), ("zb-h1", "0"), ("zb-h1", "1")])
        self.assertIn("<svg ", (self.folder / "out/bubble.svg").read_text())
        for name in METRICS:
            self.assertIn("plumbline_benchmark_barrier_bubble_seconds{", (self.folder / "out" / name).read_text())

    @needs_training
    def test_bench_measures_bubbles_of_stages_on_devices(self):
        self.assertEqual(self.run_plumbline("bench", "pipeline_bubble", "--libtorch", "--device", "emulated", "--schedule", "1f1b", "--width", "8",
                                            "--rows", "2", "--repetitions", "2", "--out", "out"), 0, self.done.stderr)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        (whole,) = [line for line in lines if line["type"] == "measurement" and line["benchmark"] == "pipeline_bubble"]
        self.assertEqual((whole["labels"]["device"], whole["labels"]["devices"]), ("emulated", "libtorch"))
        self.assertEqual(len(whole["samples"]), 2)
        self.assertGreater(min(whole["samples"]), 0)
        of_each, of_two = (whole["derived"][name] for name in ("clock_uncertainty_seconds", "clocks_apart_seconds"))
        self.assertGreater(of_each, 0)
        self.assertGreater(of_two, of_each, "both clocks may be wrong")
        self.assertLessEqual(of_two, 2 * of_each)

    def test_bench_says_how_many_collectives_a_fused_step_starts(self):
        self.assertEqual(self.run_plumbline("bench", "--benchmark", "allreduce_fusion.resnet50.copy", "--sizes", "0,25Mi", "--launches", "1", "--repetitions", "1",
                                            "--min-time", "0.001", "--out", "out"), 0, self.done.stderr)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        found = {line["labels"]["bucket_bytes"]: line for line in lines if line["type"] == "measurement"}
        self.assertEqual({size: line["derived"]["launches"] for size, line in found.items()}, {"0": 161, str(25 << 20): 4})
        for size, line in found.items():
            self.assertEqual(line["labels"]["bytes"], str(25557032 * 4))
            self.assertEqual(line["derived"]["copied_bytes"], 0 if size == "0" else 2 * 25557032 * 4, "into the buckets and out")
            self.assertTrue(line["answer_checked"])

    def test_bench_says_which_buckets_are_the_best_and_where_fusing_stops_to_pay(self):
        # However busy the machine is, four rounds are too few for a guideline to be found broken.
        self.assertEqual(self.run_plumbline("bench", "allreduce_fusion", "--model", "resnet50", "--buckets", "flat,25MiB,25MiB",
                                            "--rounds", "4", "--seconds", "0.001", "--out", "out"), 0, self.done.stderr)
        self.assertIn("resnet50: 161 gradients, 97.5 MiB, 3 rounds", self.done.stdout)
        for said in ("best buckets: ", "95 % interval ", "--bucket-size auto: ", "crossover: copying gradients together pays up to ",
                     "of the shorter hidden\nguideline, reductions beside a backward are not a tenth slower than after it: kept, slower in "):
            self.assertIn(said, self.done.stdout)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        steps = {int(line["labels"]["bucket_bytes"]): line for line in lines
                 if line["type"] == "measurement" and line["benchmark"] == "allreduce_fusion.resnet50.rounds"}
        self.assertEqual([line["derived"]["launches"] for _, line in sorted(steps.items())], [161, 4, 1])
        self.assertEqual(sum(line["derived"]["chosen"] for line in steps.values()), 1)
        self.assertTrue(all(len(line["samples"]) == 3 for line in steps.values()))
        # The choice is that of the rule, from what was measured: the smallest that is not told apart from the fastest.
        median = lambda line: sorted(line["samples"])[1]
        fastest = min(steps.values(), key=median)
        upper_quartile = (median(fastest) + max(fastest["samples"])) / 2  # of three, between the two largest
        allowed = [size for size, line in steps.items() if median(line) <= min(upper_quartile, 1.1 * median(fastest))]
        self.assertEqual([size for size, line in steps.items() if line["derived"]["chosen"]], [min(allowed)])

    def test_bench_of_fusion_says_where_a_sum_is_wrong(self):
        wrong = ["--mutant", "col.drop_last_element", "--out", "out"]
        self.assertEqual(self.run_plumbline("bench", "allreduce_fusion", "--model", "resnet50", "--buckets", "25MiB", *wrong), 1, self.done.stderr)
        for said in ("resnet50: fail: .*a bucket each: a wrong sum on rank [01]: gradient 'fc.bias', element 999 of 1000: (657|1314), where 1971 is right",
                     "crossover: fail: .*8 gradients of 256 bytes, reduced one by one: a wrong sum on rank [01]: gradient 0, element 63 of 64: (64|128), where 192"):
            self.assertRegex(self.done.stdout, said)
        self.assertNotIn("best buckets", self.done.stdout)
        self.assertEqual(self.run_plumbline("bench", "--benchmark", "allreduce_fusion.resnet50.view", "--sizes", "25Mi", "--launches", "1", *wrong), 1, self.done.stderr)
        self.assertRegex(self.done.stdout, "a wrong answer on rank [01]: gradient 'conv1.weight', element 9407 of 9408: (219|438), where 328.5 is right")

    def schedule(self, *arguments, status=0):
        self.assertEqual(self.run_plumbline("schedule", *arguments), status, self.done.stdout + self.done.stderr)
        return self.done.stdout

    def test_schedule_in_text(self):
        text = self.schedule(*SCHEDULE[1:], "--durations", "F=1,B=2")
        for line in ("1f1b: 2 stages on 2 ranks, 3 micro-batches; 12 computations",
                     "    0 F0 F1 ......B0    F2 B1    ...B2    ", "    1 ...F0 B0    F1 B1    F2 B2    ......",
                     "makespan: 12 s; bubble of the busiest rank: 3 s",
                     "closed form: barrier bubble (p-1)(tF+tB) = 3 s; simulated 3 s: equal"):
            self.assertIn(line + "\n", text)
        row = next(line.split() for line in text.splitlines() if line.startswith("    1         9"))
        #                     rank work barrier ratio   span  peak fill drain, dependency, transfer, sent late, imbalance, straggler
        self.assertEqual(row, ["1", "9", "3", "25.0%", "0", "1", "1", "2", "0", "0", "0", "0", "0"])
        self.assertIn("closed form: none holds", self.schedule(*SCHEDULE[1:], "--latency", "1"))
        text = self.schedule("--name", "gpipe", "--stages", "64", "--micro-batches", "512")
        self.assertIn("(a timeline is drawn of up to 4096 computations)", text)
        self.assertLess(len(text.splitlines()), 80)

    def test_schedule_is_made_for_times_and_memory(self):
        auto = ["--name", "auto", "--stages", "4", "--micro-batches", "8", "--memory-limit", "4"]
        text = self.schedule(*auto)
        self.assertIn("makespan: 27 s", text)
        self.assertIn("no schedule within the limits takes less than 27 s, this one 0.00% more", text)
        self.schedule(*auto, "--durations", "F=1,1,2,1,I=1,W=0.5", "--latency", "0.25", "--format", "csv", "--out", "made.csv")
        self.assertIn("VALID", self.schedule("--check", "made.csv", "--most-activations", "4"))

    def test_schedule_says_where_activations_are_kept(self):
        text = self.schedule(*SCHEDULE[1:], "--slots")
        self.assertEqual(text.splitlines()[-2:], ["    0     2  0F0@0 0F1@1 0F2@0", "    1     1  1F0@0 1F1@0 1F2@0"])

    def test_schedule_names_what_idle_time_is_for(self):
        def total(column, *arguments):
            lines = self.schedule(*SCHEDULE[1:], *arguments).splitlines()
            header = next(i for i, line in enumerate(lines) if "dependency" in line)
            at = lines[header].replace("sent late", "sent_late").split().index(column)
            return sum(float(line.split()[at]) for line in lines[header + 1:header + 3])
        for column, arguments in (("transfer", ["--latency", "1"]), ("straggler", ["--stragglers", "1=2"]),
                                  ("imbalance", ["--durations", "F=1,4"]),
                                  ("transfer", ["--bandwidth", "4", "--message-bytes", "8"]),
                                  ("straggler", ["--jitter", "0.5", "--seed", "3"])):
            with self.subTest(arguments):
                self.assertEqual(total(column), 0)
                self.assertGreater(total(column, *arguments), 0)

    def with_layers(self, *arguments, layers=LAYERS, status=0):
        (self.folder / "layers.csv").write_text(layers)
        return self.schedule("--name", "gpipe", "--stages", "2", "--micro-batches", "4", "--layers", "layers.csv", *arguments,
                             status=status)

    def test_schedule_of_measured_layers_compares_partitions(self):
        lines = self.with_layers().splitlines()
        # GPipe: all times, and three times the longest forward and backward. 16 bytes a parameter, 4 activations kept.
        self.assertEqual([line.split() for line in lines[1:4]],
                         [["uniform", "3", "3", "14", "64", "8", "31.2%", "15384"],
                          ["parameters", "5", "1", "18", "76", "4", "42.1%", "15104"],
                          ["*", "optimal", "2", "4", "12", "58", "10", "24.1%", "15560"]])
        self.assertIn("stage 0: embedding to block.0, 2 layers; F 6 s, B 6 s", lines)
        self.assertIn("makespan: 58 s; bubble of the busiest rank: 10 s", lines)
        lines = self.with_layers("--partition", "parameters").splitlines()
        self.assertTrue(lines[2].startswith("* parameters "), lines[2])
        self.assertIn("stage 1: head; F 2 s, B 2 s", lines)
        self.assertIn("makespan: 76 s; bubble of the busiest rank: 4 s", lines)
        self.assertIn("* type:BLOCK  3 3 ", self.with_layers("--partition", "type:BLOCK"))
        events = json.loads(self.with_layers("--format", "trace"))["traceEvents"]
        self.assertIn(("0F0", 6e6), [(event["name"], event["dur"]) for event in events if event["ph"] == "X"])

    def test_schedule_of_measured_layers_keeps_the_memory_limit(self):
        table = self.with_layers("--memory-bytes", "15200").splitlines()
        self.assertEqual(table[3].split(), ["*", "optimal", "5", "1", "18", "76", "4", "42.1%", "15104", "fits"])
        self.assertTrue(table[1].endswith("184 too many"), table[1])
        self.with_layers("--memory-bytes", "15103", status=2)
        self.assertEqual(self.done.stderr, "plumbline: --layers 'layers.csv': partition: 6 layers do not fit into 2 stages of 15103 "
                         "bytes each: at best stage 0, with layers 0 to 4, has 15104 bytes, 1 too many: 15040 of parameters and "
                         "4 times 16 of activations\n")
        self.assertIn("fits", self.with_layers("--memory-bytes", "2e3", "--bytes-per-parameter", "2"))

    def test_schedule_of_measured_layers_sends_their_outputs(self):
        rows = ["a,A,1,1,1,0,8", "b,B,1,1,1,0,100", "c,C,1,1,1,0,8", "d,D,1,1,1,0,8"]
        text = self.with_layers("--bandwidth", "2", layers="\n".join([LAYER_COLUMNS + ",output_bytes", *rows]))
        self.assertIn("* optimal     3 1 ", text)
        self.with_layers("--message-bytes", "5", layers="\n".join([LAYER_COLUMNS + ",output_bytes", *rows]), status=2)
        self.assertIn("--message-bytes: 'layers.csv' has a column output_bytes", self.done.stderr)

    def test_refusals_of_measured_layers(self):
        for layers, words in (
                ("name,type\n", "layers.csv:1:1: there is no column 'parameters'"),
                (LAYER_COLUMNS + ",flops\n", "layers.csv:1:56: there is no column 'flops'"),
                (LAYER_COLUMNS + ", name\n", "layers.csv:1:57: column 'name' appears twice"),
                (LAYER_COLUMNS + "\n", "layers.csv:1:1: there is no layer below the first line"),
                (LAYER_COLUMNS + "\n\na,A,1,1\n", "layers.csv:3:1: 4 fields for 6 columns"),
                (LAYER_COLUMNS + "\na,A,1, -1,1,0\n", "layers.csv:2:8: forward '-1'; it must be a number of seconds, 0 or more"),
                (LAYER_COLUMNS + "\na,A,1,1,nan,0\n", "layers.csv:2:9: backward 'nan'"),
                (LAYER_COLUMNS + "\na,A,1,1,,0\n", "layers.csv:2:9: backward ''"),
                (LAYER_COLUMNS + "\na,A,1.5,1,1,0\n", "layers.csv:2:5: parameters '1.5'; it must be a whole number from 0 to 2^53"),
                (LAYER_COLUMNS + "\na,A,1,1,1,1e99\n", "layers.csv:2:11: activation_bytes '1e99'"),
                (LAYER_COLUMNS + "\n,A,1,1,1,1\n", "layers.csv:2:1: the layer has no name"),
                (LAYER_COLUMNS + "\n\"a,b\",A,1,1,1,1\n", "layers.csv:2:1: a quote"),
                (LAYER_COLUMNS + "\na\x01,A,1,1,1,1\n", "layers.csv:2:2: the byte 0x01 is not printable"),
                (LAYER_COLUMNS + ",weight_gradient\na,A,1,1,1,1,2\n", "layers.csv:2:13: weight_gradient '2' is a part of"),
                (LAYER_COLUMNS + "\na,A,1,1,1,1\n", "--layers 'layers.csv': partition: 2 stages need a layer each, there are 1")):
            with self.subTest(layers):
                self.with_layers(layers=layers, status=2)
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertIn(words, self.done.stderr)
        for arguments, words in ((["--partition", "even"], "--partition 'even'; it must be uniform, parameters, optimal or type:"),
                                 (["--partition", "type:conv"], "'conv' is found in no type of the 6 layers"),
                                 (["--partition", "type:("], "'(' is no regular expression"),
                                 (["--memory-bytes=-1"], "--memory-bytes: a size must be 0 or more, got '-1'"),
                                 (["--memory-bytes", "0.5"], "--memory-bytes: '0.5' is not a whole number of bytes"),
                                 (["--bytes-per-parameter", "x"], "--bytes-per-parameter: 'x' is not a number")):
            with self.subTest(arguments):
                self.with_layers(*arguments, status=2)
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertIn(words, self.done.stderr)
        (self.folder / "layers.csv").write_text(LAYERS)
        self.schedule("--name", "zbv", "--stages", "2", "--micro-batches", "4", "--layers", "layers.csv", "--memory-bytes", "9e9", status=2)
        self.assertIn("--memory-bytes: it holds where each rank has one stage", self.done.stderr)

    def test_schedule_in_csv_is_what_the_check_reads(self):
        self.assertEqual(self.schedule(*SCHEDULE[1:], "--format", "csv"),
                         "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n")
        for name in ("gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "interleaved-zero-bubble", "zbv", "v-half",
                     "v-min", "dualpipev", "auto"):
            for lower in ("none", "torch", "plumbline"):
                with self.subTest(f"{name} {lower}"):
                    self.schedule("--name", name, "--stages", "3", "--micro-batches", "6", "--lower", lower, "--format", "csv",
                                  "--out", "made.csv")
                    self.assertIn("VALID: made.csv", self.schedule("--check", "made.csv"))

    def test_schedule_in_svg(self):
        self.assertEqual(self.schedule(*SCHEDULE[1:], "--format", "svg", "--out", "./"), "written: ./schedule.svg\n")
        root = ElementTree.parse(self.folder / "schedule.svg").getroot()
        titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(sorted(title.split(":")[0] for title in titles),
                         sorted(f"{s}{a}{m}" for s in (0, 1) for a in "FB" for m in range(3)))
        self.assertIn("1F0: 1 to 2 s", titles)

    def test_schedule_in_svg_has_boxes_where_some_are_short(self):
        for durations in ("F=1,I=1,W=0.005", "F=1,I=0.005,W=0.005"):
            svg = self.schedule("--name", "zb-h1", "--stages", "4", "--micro-batches", "4", "--durations", durations, "--format", "svg")
            self.assertNotIn("enlarged", svg, "4 micro-batches have room")
            self.assertEqual(svg.count("<title>"), 4 * 4 * 3)
        # 44 boxes of a usual width are enlarged, not 44 of the shortest.
        svg = self.schedule("--name", "zb-h1", "--stages", "4", "--micro-batches", "128", "--durations", "F=1,I=1,W=0.005", "--format", "svg")
        self.assertGreater(float(re.search(r"enlarged: the first (\S+) s", svg)[1]), 20)

    def test_schedule_as_a_trace(self):
        events = json.loads(self.schedule(*SCHEDULE[1:], "--lower", "plumbline", "--latency", "0.5", "--format", "trace"))["traceEvents"]
        computations = {event["name"]: event for event in events if event["ph"] == "X"}
        self.assertEqual(len(computations), 12)
        self.assertEqual({key: computations["1F0"][key] for key in ("tid", "ts", "dur", "cat")},
                         {"tid": 2, "ts": 1.5e6, "dur": 1e6, "cat": "F"})
        begun, ended = ([event for event in events if event["ph"] == phase] for phase in "be")
        self.assertEqual(len(begun), 6, "an output and a gradient of each micro-batch")
        self.assertEqual([event["id"] for event in begun], [event["id"] for event in ended])
        self.assertTrue(all(end["ts"] - begin["ts"] == 0.5e6 for begin, end in zip(begun, ended)))

    def test_a_trace_keeps_to_the_format_of_trace_events(self):
        # docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU; Perfetto has its own use for id 0.
        for schedule in (["--name", "1f1b"], ["--name", "dualpipev", "--lower", "plumbline", "--latency", "0.25", "--jitter", "0.3"]):
            with self.subTest(schedule=schedule):
                text = self.schedule(*schedule, "--stages", "3", "--micro-batches", "7", "--format", "trace")
                events = json.loads(text, parse_constant=self.fail)["traceEvents"]
                threads = {}
                for event in events:
                    self.assertLessEqual({"ph", "name", "pid"}, set(event))
                    self.assertGreater(event["pid"], 0)
                    self.assertIn(event["ph"], "MXbe")
                    if event["ph"] == "M":
                        threads.setdefault(event["name"], {})[event.get("tid")] = event["args"]
                        continue
                    self.assertGreaterEqual(event["ts"], 0)
                    self.assertIn(event["tid"], threads["thread_name"], "a thread has its name before its events")
                    if event["ph"] != "X":
                        self.assertLessEqual({"id", "cat"}, set(event), "what is asynchronous is paired by them")
                self.assertEqual(threads["thread_name"], {rank + 1: {"name": f"rank {rank}"} for rank in range(3)})
                self.assertEqual(set(threads), {"process_name", "thread_name", "thread_sort_index"})
                for rank in range(3):
                    self.assert_slices_nest([event for event in events if event["ph"] == "X" and event["tid"] == rank + 1])
                pairs = {}
                for event in events:
                    if event["ph"] in "be":
                        pairs.setdefault((event["cat"], event["id"]), []).append(event)
                for begin, end in pairs.values():
                    self.assertEqual((begin["ph"], end["ph"]), ("b", "e"))
                    self.assertEqual(begin["name"], end["name"])
                    self.assertLessEqual(begin["ts"], end["ts"])

    def assert_slices_nest(self, slices):
        """Of one thread: two lie apart, or one within the other; else a viewer drops one of them."""
        self.assertTrue(slices)
        self.assertTrue(all(piece["dur"] >= 0 for piece in slices))
        open_until = []
        for piece in sorted(slices, key=lambda piece: (piece["ts"], -piece["dur"])):
            begin, end = piece["ts"], piece["ts"] + piece["dur"]
            while open_until and open_until[-1] <= begin + 1e-6:
                open_until.pop()
            self.assertTrue(not open_until or end <= open_until[-1] + 1e-6, piece)
            open_until.append(end)

    def test_a_schedule_that_does_not_fit_leaves_what_was_there(self):
        def bound_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing fails in its place, as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        for form in ("text", "csv", "svg", "trace"):
            with self.subTest(form):
                (self.folder / "out").write_text("before")
                done = subprocess.run([PLUMBLINE, *SCHEDULE[:-1], "200", "--format", form, "--out", "out"], cwd=self.folder,
                                      capture_output=True, text=True, timeout=60, preexec_fn=bound_files)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "", "plumbline: cannot write 'out': File too large\n"))
                self.assertEqual(os.listdir(self.folder), ["out"])
                self.assertEqual((self.folder / "out").read_text(), "before")

    def test_schedule_lists_its_names(self):
        lines = self.schedule("--list").splitlines()
        names = [line.split()[0] for line in lines[:-2]]
        self.assertEqual(len(set(names)), len(names))
        # New ones may follow.
        self.assertEqual(names[:13], ["gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2",
                                      "interleaved-zero-bubble", "zbv", "v-half", "v-min", "dualpipev", "forward-only",
                                      "auto"])

    def check_schedule(self, csv, *arguments, status):
        (self.folder / "s.csv").write_text(csv)
        return self.schedule("--check", "s.csv", *arguments, status=status)

    def test_schedules_that_are_valid(self):
        text = self.check_schedule("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n", status=0)
        self.assertEqual(text, "VALID: s.csv: 2 stages on 2 ranks, 2 micro-batches, 8 cells; free of deadlock, buffered and under "
                         "rendezvous; 0 errors, 0 warnings\npeak activations by rank: 2 2\n")
        self.check_schedule("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "--stage-to-rank", "0,1,1,0", status=0)
        self.check_schedule("0F0,0F1\n1F0,1F1\n", "--forward-only", status=0)
        warned = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B1,0B1,0RECV_B0,0B0\n1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n"
        self.assertIn("fifo", self.check_schedule(warned, status=1))

    def own_schedule(self, csv, *arguments, status=0):
        (self.folder / "own.csv").write_text(csv)
        return self.schedule("--file", "own.csv", *arguments, status=status)

    def test_a_schedule_of_ones_own_has_what_a_named_one_has(self):
        for name, lower in (("1f1b", "none"), ("zbv", "plumbline"), ("dualpipev", "torch")):
            named = ("--name", name, "--stages", "2", "--micro-batches", "5", "--lower", lower)
            costs = ("--durations", "F=1,2,1,3,I=2,W=0.5" if name != "1f1b" else "F=1,2,B=3", "--latency", "0.25", "--stragglers", "1=1.5")
            csv = self.schedule(*named, "--format", "csv")
            for form in ("text", "svg", "trace", "json"):
                with self.subTest(name=name, form=form):
                    expected = self.schedule(*named, *costs, "--format", form)
                    found = self.own_schedule(csv, *costs, "--format", form).replace("own.csv: ", name + ": ", 1)
                    drop = lambda text: [line for line in text.splitlines() if not line.startswith(("checked: ", "closed form: "))]
                    self.assertEqual(drop(found), drop(expected))
            made = json.loads(self.own_schedule(csv, *costs, "--format", "json"))
            self.assertEqual(self.own_schedule(json.dumps(made), "--format", "csv"), csv)
            self.assertEqual(self.own_schedule(csv, "--slots").splitlines()[-2:], self.schedule(*named, "--slots").splitlines()[-2:])

    def test_a_schedule_of_ones_own_says_what_is_sent_late(self):
        # Rank 0 sends the first output after its second forward; rank 1 the first gradient after a weight gradient of 3.
        figures = json.loads(self.own_schedule("0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0I0,0W0,0RECV_B1,0I1,0W1\n"
                                               "1RECV_F0,1F0,1I0,1W0,1SEND_B0,1RECV_F1,1F1,1I1,1SEND_B1,1W1\n",
                                               "--durations", "F=2,I=1,W=3", "--format", "json"))["figures"]
        self.assertEqual([rank["idle"]["sent_late"] for rank in figures], [3, 2])
        self.assertEqual([rank["start_times"][5] for rank in figures], [10, 10])

    def test_a_schedule_of_ones_own_in_pytorchs_old_notation(self):
        text = self.own_schedule('"0F0","0F1","0BW0","0BW1"\r\n1F0,1B0,1F1,1W0,1BW1\r\n')
        self.assertIn("read in PyTorch's old notation: B is the gradient of the input, now I, and BW both, now B\n", text)
        self.assertIn("    1 ...F0 I0 F1 W0 B1    ......\n", text)
        self.assertIn("VALID: s.csv", self.check_schedule("0F0,0BW0\n1F0,1B0,1W0\n", status=0))
        # Without a BW it is not guessed: what B means is said, or B is all of the backward pass.
        split = "0F0,0B0,0W0\n1F0,1B0,1W0\n"
        text = self.check_schedule(split, status=1)
        self.assertIn("back-propagated twice", text)
        self.assertIn("as PyTorch once wrote it: --notation torch-old\n", text)
        self.assertIn("VALID: s.csv", self.check_schedule(split, "--notation", "torch-old", status=0))
        self.assertNotIn("--notation", self.check_schedule(split, "--notation", "torch", status=1))
        self.own_schedule(split, status=2)
        self.assertIn("--notation torch-old", self.done.stderr)
        self.assertIn("    1 ...F0 I0 W0", self.own_schedule(split, "--notation", "torch-old"))
        for arguments, words in ((["--notation", "old"], "--notation: there is no 'old'; there are torch, torch-old"),):
            self.own_schedule(split, *arguments, status=2)
            self.assertIn(words, self.done.stderr)
        self.schedule("--name", "1f1b", "--notation", "torch", status=2)
        self.assertIn("--notation requires --file or --check", self.done.stderr)

    def test_a_schedule_of_ones_own_that_has_no_times(self):
        warned = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n"
        self.assertIn("checked: free of deadlock where sends are buffered, not under rendezvous; 0 warnings", self.own_schedule(warned))
        for csv, arguments, words in (
                ("0B0,0F0\n", [], "--file 'own.csv': error dependency: rank 0, position 0, 0B0: needs 0F0"),
                ("0F0,0F1,0B0\n", [], "error missing: rank 0, 0B1: "),
                ("0F0,0B0\n", ["--micro-batches", "3"], "4 errors in all, which --check reports"),
                (warned, ["--rendezvous"], "--file 'own.csv': error deadlock: rank 0, position 3, 0SEND_F1: "),
                (warned, ["--lower", "torch"], "--lower torch: 'own.csv' has its messages"),
                ("0F0,0B0\n", ["--rendezvous"], "--rendezvous: there are no messages to wait for"),
                ("0F0,0B0\n", ["--durations", "F=1,2"], "--durations: F has 2 entries; it has one, or one for each of 1 stages"),
                ("0F0,0B0\n", ["--stage-to-rank", "3"], "rank 3 is not one of the file's 1 ranks"),
                ("0F0,0B0\n", ["--format", "csv", "--latency", "1"], "--latency: --format csv has the order of actions alone"),
                ("0F0,0B0\n", ["--out", "own.csv"], "--out 'own.csv': it would replace 'own.csv', which --file reads"),
                ('{"ranks": 3}', [], "--file 'own.csv': schedule: ranks: must be a list of rows"),
                ('{"ranks": ["0F0"', [], "this is not JSON"),
                ('0F0,"0B0\n', [], "line 1, column 2: '\"0B0' is no cell")):
            with self.subTest(words):
                self.assertEqual(self.own_schedule(csv, *arguments, status=2), "")
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertIn(words, self.done.stderr)

    def test_schedules_that_are_refuted(self):
        for csv, arguments, words in (
                ("0F0,0B0,0B0\n", [], "error doubled: rank 0, position 2, 0B0: "),
                ("0B0,0F0\n", [], "error dependency: rank 0, position 0, 0B0: "),
                ("0F0,0F1,0B0\n", [], "error missing: rank 0, 0B1: "),
                ("0F0,0B0\n", ["--micro-batches", "2"], "error missing: rank 0, 0F1: "),
                ("0F0,0F1,0B0,0B1\n", ["--most-activations", "1"], "error activations: rank 0, position 1, 0F1: "),
                ("0F0,1F0,1B0,0B0\n\n", ["--stage-to-rank", "0,1"], "error wrong_rank: rank 0, position 1, 1F0: "),
                ("0F0,0B0,7F0\n", ["--stage-to-rank", "0"], "error range: rank 0, position 2, 7F0: "),
                ("0F0,0RECV_B0,0B0,0SEND_F0\n1RECV_F0,1F0,1B0,1SEND_B0\n", [], "error deadlock: ")):
            with self.subTest(words):
                text = self.check_schedule(csv, *arguments, status=1)
                self.assertTrue(text.startswith(words) or "\n" + words in text, text)
                self.assertIn("\nNOT VALID: s.csv: ", text)

    def test_a_verdict_counts_problems_that_are_not_listed(self):
        (Path(self.folder) / "short.csv").write_text("0F0,0B0\n")
        self.assertEqual(self.run_plumbline("schedule", "--check", "short.csv", "--micro-batches", "41"), 1, self.done.stderr)
        lines = self.done.stdout.splitlines()
        self.assertEqual(len([line for line in lines if line.startswith("error missing: ")]), 20)
        self.assertIn("and 60 more", lines)
        self.assertIn("80 errors, 0 warnings", self.done.stdout)

    def test_schedules_have_several_names(self):
        shape = ("--stages", "2", "--micro-batches", "4", "--format", "csv")
        for names in (("1f1b", "1F1B", "Schedule1F1B"), ("interleaved", "interleaved-1f1b", "Interleaved1F1B", "INTERLEAVED1F1B"),
                      ("gpipe", "GPipe"), ("looped-bfs", "LoopedBFS"), ("interleaved-zero-bubble", "interleaved-zb", "InterleavedZeroBubble"),
                      ("zbv", "ZBVZeroBubble", "ScheduleZBVZeroBubble"), ("dualpipev", "DualPipeV")):
            plans = set()
            for name in names:
                self.assertEqual(self.run_plumbline("schedule", "--name", name, *shape), 0, self.done.stderr)
                plans.add(self.done.stdout)
            self.assertEqual(len(plans), 1, names)

    def test_schedules_that_are_none(self):
        for csv, arguments, words in (
                ("0F0,0B0\n1F0,1X0\n", [], "--check 's.csv': schedule: line 2, column 2: '1X0' is no cell"),
                ("0F0,0B0\n1F0,1X0\n", ["--stage-to-rank", "0,1"], "line 2, column 2: '1X0' is no cell"),
                ("0F0,0B0\n7F0,7B0\n", [], "no line computes stage 1, but there is a stage 7"),
                ("0F0\n0B0\n", [], "a stage has one rank"),
                ("0F0,0B0\n", ["--stage-to-rank", "0,1"], "--stage-to-rank: rank 1 is not one of the file's 1 ranks"),
                ("0F0,0B0\n", ["--stage-to-rank", "0,x"], "--stage-to-rank: 'x' is not a whole number"),
                ("0F0,0B0\n", ["--micro-batches", "0"], "--micro-batches: must be 1 or more, got 0")):
            with self.subTest(words):
                self.assertEqual(self.check_schedule(csv, *arguments, status=2), "")
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertIn(words, self.done.stderr)

    def test_gossip_shows_a_graph_and_its_rate(self):
        self.assertEqual(self.run_plumbline("gossip", "--graph", "ring", "--nodes", "8", "--peers", "2", "--rounds", "3"), 0)
        self.assertIn("     0: 1 7\n", self.done.stdout)
        self.assertIn("0.804738 per round; spectral gap 0.195262", self.done.stdout)
        self.assertIn("blocking sends, one at a time, deadlock", self.done.stdout)
        self.assertEqual(self.run_plumbline("gossip", "--graph", "ring", "--nodes", "6", "--rounds", "1"), 0)
        self.assertIn("1 peer per round, uniform shares: regular, static, weights stay 1\n     0: 1\n     1: 2\n", self.done.stdout)
        self.assertEqual(self.run_plumbline("gossip", "--graph", "mesh", "--nodes", "6", "--mixing", "metropolis-hastings",
                                            "--format", "json", "--rounds", "4"), 0)
        shown = json.loads(self.done.stdout)
        self.assertEqual(shown["phone_book"][0], [1, 3])
        self.assertEqual(len(shown["error"]), 4)
        self.assertEqual(self.run_plumbline("gossip", "--graph", "star", "--nodes", "5", "--format", "svg"), 0)
        self.assertIn("<title>star of 5 nodes</title>", self.done.stdout)
        self.assertEqual(self.done.stdout.count('marker-end="url(#head)"'), 8, "the center sends to four nodes, and each of them to it")
        self.assertEqual(self.run_plumbline("gossip", "--graph", "directed-exponential", "--nodes", "8", "--peers", "1", "--format", "svg"), 0)
        self.assertEqual(self.done.stdout.count('marker-end="url(#head)"'), 5 * 8, "a panel a round, of eight messages each")
        self.assertIn("round 5 is round 0 again", self.done.stdout)

    def own_graph(self, text, *arguments, name="own.csv", status=0):
        (self.folder / name).write_text(text)
        self.assertEqual(self.run_plumbline("gossip", "--file", name, *arguments), status, self.done.stdout + self.done.stderr)
        return self.done.stdout

    def test_gossip_of_a_graph_of_ones_own(self):
        # Pairs of a square along one side, then along the other: half and half, the mean after two rounds.
        pairs = ((0, 1), (2, 3)), ((0, 2), (1, 3))
        lines = [f"{r},{a},{b},0.5" for r, of in enumerate(pairs) for pair in of for a, b in (pair, pair[::-1])]
        text = self.own_graph("round,from,to,weight\n" + "\n".join(lines), "--rounds", "2")
        for line in ("own.csv, 4 nodes, 1 peer per round, given shares: regular, dynamic, weights stay 1", "     0: 1 2",
                     "the rounds repeat after 2; connected: every node hears of every other",
                     "columns sum to 1, rows to 1: doubly stochastic, plain averages keep the mean",
                     "shares of round 1, a row for each receiver", "     0:    0.5      .    0.5      ."):
            self.assertIn(line + "\n", text)
        self.assertIn("after 2 rounds: 0 of the initial one", text)
        self.assertLess(float(text.split()[-1]), 1e-15)

    def test_gossip_of_a_graph_of_ones_own_is_a_named_one_in_other_words(self):
        for graph, peers in (("static-exponential", 0), ("mesh", 0), ("n-peer-exponential", 2), ("star", 0)):
            with self.subTest(graph):
                self.assertEqual(self.run_plumbline("gossip", "--graph", graph, "--nodes", "9", "--peers", str(peers), "--format", "json"), 0)
                named = json.loads(self.done.stdout)
                own = json.loads(self.own_graph(json.dumps(named), "--format", "json", name="own.json"))
                for field in ("phone_book", "regular", "dynamic"):
                    self.assertEqual(own[field], named[field], field)
                for field, expected in named["spectrum"].items():
                    self.assertAlmostEqual(own["spectrum"][field], expected, places=6, msg=field)
                for found, expected in zip(own["error"], named["error"], strict=True):
                    self.assertAlmostEqual(found, expected, delta=1e-12)
                self.assertEqual(own["sums"]["doubly_stochastic"], graph not in ("star", "mesh"))
                self.assertTrue(own["connected"])
                self.assertEqual(len(own["matrices"]), own["period"])
                for matrix in own["matrices"]:
                    for node in range(9):
                        self.assertAlmostEqual(sum(matrix[node::9]), 1, msg="nothing is lost")
                svg = self.own_graph(json.dumps(named), "--format", "svg", name="own.json")
                self.assertIn("<title>own.json of 9 nodes</title>", svg)

    def test_gossip_of_a_graph_of_ones_own_that_falls_apart(self):
        text = self.own_graph("from,to\n0,1\n1,0\n2,3\n3,2\n", "--rounds", "60")
        self.assertIn("not connected: node 0 never hears of node 2\n", text)
        self.assertGreater(float(text.split()[-1]), 1e-3, "two means are no mean")
        for graph, arguments, words in (
                ("from,to\n0,1\n1,2\n2,1\n", [], "--file 'own.csv': no node sends to node 0: it never learns another value"),
                ("from,to\n0,1\n1,0\n0,2\n", [], "node 2 sends to no other node: none learns its value"),
                ("from,to\n0,1\n1,1\n", [], "line 3: node 1 sends to itself"),
                ("round,from,to\n0,0,1\n0,1,0\n1,0,1\n", [], "round 1: node 1 sends to 0 nodes, but node 0 to 1 in round 0"),
                ("from,to,weight\n0,1,.5\n0,2,.6\n1,0,.5\n2,0,.5\n", [], "node 0 sends 1.1 of its mass and keeps 0"),
                ("from,to,weight\n0,1,.5\n1,0,.5\n", ["--mixing", "skewed"], "--mixing skewed: 'own.csv' has weights"),
                ("from,to\n0,1\n1,2\n2,0\n", ["--mixing", "metropolis-hastings"], "each receiver must answer"),
                ("from,to\n0,1\n1,0\n", ["--nodes", "2"], "--file excludes --nodes"),
                ("from,to\n0,1\n1,0\n", ["--out", "own.csv"], "it would replace 'own.csv', which --file reads"),
                ("\x1b[2J", [], "there is no column '?[2J'"),
                ("round,from,to\n65535,0,1048575\n", [], "--file 'own.csv': 65536 rounds of 1048576 nodes; rounds times nodes may be 4194304"),
                ('{"phone_book": [[1], [2]]}', [], "phone_book[1]: node 2 of 2 nodes")):
            with self.subTest(words):
                self.assertEqual(self.own_graph(graph, *arguments, status=2), "")
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertIn(words, self.done.stderr)

    def scaler(self, *arguments, status=0):
        self.assertEqual(self.run_plumbline("scaler", *arguments), status, self.done.stdout + self.done.stderr)
        return self.done.stdout

    def test_scaler_shows_where_rules_part(self):
        text = self.scaler("--overflows", "3,4,1100", "--steps", "2200")
        self.assertIn("2200 steps, 3 of them with an overflow: 3 4 1100\n", text)
        self.assertIn("  step 1004, clean step 1000 in a row: grows: torch, colossalai, megatron; "
                      "counts: deepspeed, deepspeed-consecutive\n", text)
        self.assertIn("  step 1005, clean step 1001 in a row: counts: torch, colossalai, megatron; "
                      "grows: deepspeed, deepspeed-consecutive\n", text)
        self.assertIn("  step 3, overflow: backs off: torch; spends a chance: colossalai, megatron, deepspeed, "
                      "deepspeed-consecutive\n", text)
        self.assertIn("they do not part", self.scaler("--dialects", "colossalai,megatron,colossalai-constant"))

    def test_scaler_of_patterns_and_their_bounds(self):
        (self.folder / "steps.txt").write_text("!!.\n!!\n")
        arguments = ["--scale", "4", "--growth-interval", "3"]
        shown = json.loads(self.scaler("--file", "steps.txt", *arguments, "--format", "json"))
        self.assertEqual(shown["overflows"], [1, 2, 4, 5])
        deeds = {one["name"]: [deed["does"] for deed in one["deeds"]] for one in shown["dialects"]}
        self.assertEqual(deeds["torch"], ["backs off"] * 4)
        self.assertEqual(deeds["megatron"], ["spends a chance", "backs off", "backs off", "holds its minimum"])
        self.assertEqual(deeds["deepspeed"], ["spends a chance", "backs off", "backs off", "gives up"])
        self.assertEqual(deeds["deepspeed-consecutive"],
                         ["spends a chance", "backs off", "gets its chances back", "spends a chance", "backs off"])
        self.assertEqual(deeds["colossalai-constant"], [])
        self.assertEqual(self.scaler("--pattern", "!!.!!", *arguments, "--format", "json"), json.dumps(shown, separators=(",", ":")) + "\n")
        rows = [line.split(",") for line in self.scaler("--pattern", "!.", "--steps", "5", "--format", "csv", *arguments).splitlines()]
        self.assertEqual(rows[0][:4], ["step", "overflow", "torch", "colossalai-constant"])
        self.assertEqual([row[1] for row in rows[1:]], ["0", "1", "0", "1", "0", "1"], "the pattern is repeated")
        self.assertEqual([row[2] for row in rows[1:]], ["4", "2", "2", "1", "1", "0.5"])
        ended = self.scaler("--pattern", "!!", "--scale", "1", "--hysteresis", "1", "--format", "csv", "--dialects", "deepspeed,torch")
        self.assertEqual(ended.splitlines()[-1], "2,1,,0.25", "it has given up")
        held = self.scaler("--pattern", "!!", "--scale", "1", "--hysteresis", "1", "--hold-at-minimum", "--format", "csv",
                           "--dialects", "deepspeed")
        self.assertEqual(held.splitlines()[-1], "2,1,1")

    def test_scaler_as_a_picture(self):
        root = ElementTree.fromstring(self.scaler("--overflows", "3,4", "--steps", "20", "--format", "svg"))
        svg = "{http://www.w3.org/2000/svg}"
        self.assertEqual([line.find(svg + "title").text for line in root.iter(svg + "polyline")],
                         ["torch", "colossalai-constant", "colossalai", "megatron", "deepspeed", "deepspeed-consecutive"])
        self.assertEqual(sum(line.get("class") == "overflow" for line in root.iter(svg + "line")), 2)
        self.assertIn("2^16", [text.text for text in root.iter(svg + "text")])
        self.assertIn("written: out/scaler.svg", self.scaler("--format", "svg", "--out", "out/"))
        cells = ElementTree.fromstring(self.scaler("--injection", "--tensor", "1", "--data", "1", "--format", "svg"))
        self.assertEqual(sum(len(rect) for rect in cells.iter(svg + "rect")), 5 * 4 * 4)

    def test_injections_stand_below_their_value_and_rank(self):
        root = ElementTree.fromstring(self.scaler("--injection", "--pipeline", "3", "--data", "1", "--format", "svg"))
        svg = "{http://www.w3.org/2000/svg}"
        texts = [(text.text, float(text.get("x"))) for text in root.iter(svg + "text")]
        for words in ("moment", "decided over", "inf on rank", "nan on rank", "right", "every rank skips, and the next step is clean", "ranks part"):
            self.assertEqual(sum(text == words for text, _ in texts), 1, words)
        columns = [(float(text.get("x")), text.text) for text in root.iter(svg + "text") if text.get("text-anchor") == "middle"]
        self.assertEqual([rank for _, rank in columns], [str(rank) for rank in range(6)] * 2)
        middle = next(x for text, x in texts if text == "nan on rank")
        tied = 0  # of the first and the last stage alone
        for rect in root.iter(svg + "rect"):
            title = rect.find(svg + "title")
            if title is None:
                continue
            value, rank = re.match(r"(inf|nan) on rank (\d+) ", title.text).groups()
            column = min(columns, key=lambda one: abs(one[0] - float(rect.get("x")) - float(rect.get("width")) / 2))
            self.assertEqual((column[1], column[0] > middle), (rank, value == "nan"))
            tied += rank in "23"
        self.assertEqual(tied, 3 * 5 * 2 * 2)

    def test_scaler_injects_everywhere(self):
        text = self.scaler("--injection", "--pipeline", "3")
        self.assertIn("before_reduction: right over tensor_then_pipeline, model, model_and_data\n", text)
        self.assertIn("in_tied_module: right over tensor_then_pipeline, model, model_and_data\n", text)
        self.assertIn("after_reduction: right over model_and_data\n", text)
        self.assertIn("never_reduced: right over model_and_data\n", text)
        shown = json.loads(self.scaler("--injection", "--value", "inf", "--format", "json"))["injections"]
        self.assertEqual(len(shown), 4 * 5 * 8)
        (one,) = [row for row in shown if (row["moment"], row["decided_over"], row["rank"]) == ("never_reduced", "model", 6)]
        self.assertEqual((one["stage"], one["tensor"], one["data"]), (1, 0, 1))
        self.assertEqual((one["must_skip"], one["skipped"]), ([*range(8)], [4, 5, 6, 7]))
        self.assertEqual((one["not_finite"], one["equal_replicas"], one["right"]), ([2], False, False))
        rows = self.scaler("--injection", "--value", "nan", "--tensor", "1", "--pipeline", "1", "--format", "csv").splitlines()
        self.assertEqual(len(rows), 1 + 3 * 5 * 2, "one stage has no tied module")
        self.assertIn("after_reduction,model,nan,1,0,0,1,1,0,0,,,0", rows)

    def test_bench_tells_multiples_of_a_baseline(self):
        self.assertEqual(self.run_plumbline("bench", "--benchmark", "scaler.agreement.gpt2.*", "--launches", "1", "--repetitions", "1", "--min-time",
                                            "0.001", "--world-size", "2", "--out", "out"), 0, self.done.stderr)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        derived = {line["benchmark"]: line["derived"] for line in lines if line["type"] == "measurement"}
        self.assertEqual(derived["scaler.agreement.gpt2.per_tensor"]["collectives"], 148)
        self.assertGreater(derived["scaler.agreement.gpt2.per_tensor"]["ratio_to_baseline"], 0)

    def buckets(self, *arguments, status=0):
        self.assertEqual(self.run_plumbline("buckets", *arguments), status, self.done.stdout + self.done.stderr)
        return self.done.stdout

    def test_buckets_of_a_table(self):
        folder = Path(self.folder)
        (folder / "gradients.csv").write_text("name,elements,dtype\nembedding,300000,f32\nnorm,64,f32\nhead,5000,f16\n")
        text = self.buckets("--gradients", "gradients.csv", "--limits", "1MiB")
        self.assertEqual([line.split()[-1] for line in text.splitlines()[1:-1]], ["head", "norm", "embedding"])
        self.assertIn("3 buckets of 3 gradients, 1210256 bytes", text)
        plan = json.loads(self.buckets("--gradients", "gradients.csv", "--rule", "flat", "--format", "json"))
        self.assertEqual([bucket["members"] for bucket in plan["buckets"]], [[[0, 0], [1, 300000]], [[2, 0]]])
        (folder / "plan.json").write_text(json.dumps(plan))
        self.assertIn("OK: plan.json", self.buckets("--gradients", "gradients.csv", "--check", "plan.json"))

    def test_buckets_in_the_order_of_readiness_and_padded(self):
        folder = Path(self.folder)
        (folder / "gradients.csv").write_text("name,elements,dtype\na,100,f32\nb,100,f32\nc,100,f32\n")
        (folder / "order.txt").write_text("b\nc\na\n")
        plan = json.loads(self.buckets("--gradients", "gradients.csv", "--limits", "800", "--order", "order.txt", "--format", "json"))
        self.assertEqual([bucket["members"] for bucket in plan["buckets"]], [[[1, 0], [2, 100]], [[0, 0]]])
        for wrong, words in (("b\nc\n", "it has 2 of 3 gradients; 'a' is missing"), ("b\nb\n", "gradient 'b' comes twice"), ("x\n", "no gradient 'x'")):
            (folder / "order.txt").write_text(wrong)
            self.buckets("--gradients", "gradients.csv", "--order", "order.txt", status=2)
            self.assertIn(words, self.done.stderr)
        plan = json.loads(self.buckets("--gradients", "gradients.csv", "--rule", "megatron", "--distributed-optimizer", "3", "--format", "json"))
        self.assertEqual([bucket["elements"] for bucket in plan["buckets"]], [384])
        self.assertEqual(plan["buckets"][0]["members"], [[2, 0], [1, 128], [0, 256]])
        megatron = ("--gradients", "gradients.csv", "--rule", "megatron", "--distributed-optimizer", "6", "--format", "json")
        self.assertEqual(json.loads(self.buckets(*megatron, "--instances", "2")), plan)
        self.buckets(*megatron, "--instances", "4", status=2)
        self.assertIn("6 ranks in 4 instances of the distributed optimizer", self.done.stderr)
        self.buckets("--gradients", "gradients.csv", "--rule", "megatron", "--instances", "2", status=2)
        self.assertIn("--instances: it needs --distributed-optimizer", self.done.stderr)
        self.buckets("--gradients", "gradients.csv", "--distributed-optimizer", "3", status=2)
        self.assertIn("--distributed-optimizer: only for --rule megatron", self.done.stderr)
        (folder / "gradients.csv").write_text("name,elements,dtype\na,100,f32\na,100,f32\n")
        self.buckets("--gradients", "gradients.csv", status=2)
        self.assertIn("--gradients gradients.csv: gradients, line 3: the name 'a' is that of gradients, line 2 already", self.done.stderr)

    def test_buckets_of_a_plan_that_is_padded_and_of_one_that_is_not(self):
        folder = Path(self.folder)
        (folder / "gradients.csv").write_text("name,elements,dtype\nembed,30,f32\nfc1,21,f32\nfc2,20,f32\nhead,15,f32\n")
        plan = self.buckets("--gradients", "gradients.csv", "--rule", "megatron", "--distributed-optimizer", "4", "--format", "json")
        (folder / "padded.json").write_text(plan)
        check = ("--gradients", "gradients.csv", "--check")
        for options in ((), ("--distributed-optimizer", "4"), ("--rule", "megatron"), ("--rule", "megatron", "--distributed-optimizer", "4")):
            self.assertIn("members at multiples of 64 elements, buckets of multiples of 128, 0 problems",
                          self.buckets(*check, "padded.json", *options))
        # Of 384 ranks a bucket has a multiple of lcm(384, 128).
        self.assertIn("error: alignment: bucket 0 has 256 elements, no multiple of 384",
                      self.buckets(*check, "padded.json", "--distributed-optimizer", "384", status=1))
        (folder / "plain.json").write_text('{"schema": 1, "buckets": [{"dtype": "f32", "elements": 35, "members": [[3, 0], [2, 15]]},'
                                           ' {"dtype": "f32", "elements": 51, "members": [[1, 0], [0, 21]]}]}')
        (folder / "layout.json").write_text('{"param_index": [[56, 86, 1], [35, 56, 1], [15, 35, 0], [0, 15, 0]], "bucket_indices": [[0, 35], [35, 86]]}')
        for file in ("plain.json", "layout.json"):
            self.assertIn("0 problems", self.buckets(*check, file))
            text = self.buckets(*check, file, "--distributed-optimizer", "4", status=1)
            self.assertIn("error: alignment: bucket 0 has 35 elements, no multiple of 128\n"
                          "error: alignment: gradient 2 starts at element 15 of bucket 0, no multiple of 64 ('fc2')\n", text)
        # A layout does not say what its padding is for.
        (folder / "layout.json").write_text('{"param_index": [[192, 222, 0], [128, 149, 0], [64, 84, 0], [0, 15, 0]], "bucket_indices": [[0, 256]]}')
        self.assertIn("--distributed-optimizer N explains it", self.buckets(*check, "layout.json", status=1))
        self.assertIn("Megatron-core's layout: 1 bucket,", self.buckets(*check, "layout.json", "--distributed-optimizer", "4"))

    def test_buckets_of_what_others_write_about_theirs(self):
        folder = Path(self.folder)
        (folder / "gradients.csv").write_text("name,elements,dtype\nembed,30,f32\nfc1,21,f32\nfc2,20,f32\nhead,15,f32\n")
        for file, form, value in (
                ("rebuilt.json", "DDP's logging data", {"world_size": 2, "rank": 0, "num_parameter_tensors": 4, "total_parameter_size_bytes": 344,
                 "bucket_sizes": "344", "rebuilt_bucket_sizes": "140, 204", "rebuilt_per_bucket_param_indices": "3 2, 1 0", "backend_name": "gloo"}),
                ("sizes.json", "DDP's logging data", {"bucket_sizes": "140, 204", "num_parameter_tensors": 4}),
                ("groups.json", "Paddle's groups", [{"gradients": ["head", "fc2"], "numel": 35, "ring_id": 12}, {"gradients": ["fc1", "embed"]}]),
                ("pass.json", "Paddle's groups", {"case": "mlp", "groups": [{"gradients": ["head", "fc2", "fc1", "embed"]}]})):
            (folder / file).write_text(json.dumps(value))
            self.assertIn(f"OK: {file}, {form}: ", self.buckets("--gradients", "gradients.csv", "--check", file))
        (folder / "groups.json").write_text('[{"gradients": ["head", "fc2"]}, {"gradients": ["fc2", "embed"]}]')
        text = self.buckets("--gradients", "gradients.csv", "--check", "groups.json", status=1)
        self.assertIn("error: missing: gradient 1 is in no bucket ('fc1')\nerror: doubled: gradient 2 is in 2 places ('fc2')\n", text)
        for wrong, words in (('{"a": 1}', "a plan must have buckets (ours), param_index and bucket_indices (Megatron-core's layout)"),
                             ("3", "got 3"), ("{", "not JSON"), ('{"buckets": 3}', "plan.buckets must be a list, got 3"),
                             ('{"buckets": [], "member_alignment": 0}', "plan.member_alignment must be 1 or more, got 0"),
                             ('{"param_index": []}', "layout.param_index has 0 parameters; there are 4 gradients"),
                             ('{"bucket_sizes": "141, 203"}', "a bucket of 203 bytes does not hold whole gradients"),
                             ('[{"gradients": ["x"]}]', "has 'x', and no gradient is called so")):
            (folder / "wrong.json").write_text(wrong)
            self.buckets("--gradients", "gradients.csv", "--check", "wrong.json", status=2)
            self.assertIn("--check wrong.json: ", self.done.stderr)
            self.assertIn(words, self.done.stderr)

    def test_buckets_hold_a_plan_to_a_rule(self):
        folder = Path(self.folder)
        (folder / "gradients.csv").write_text("name,elements,dtype\na,100,f32\nb,100,f32\nc,100,f16\nd,100,f32\n")
        (folder / "order.txt").write_text("b\nd\na\nc\n")
        rules = {"torch": ("--limits", "800"), "megatron": (), "colossalai": (), "flat": (), "unfused": ()}
        for rule, options in rules.items():
            for order in ((), ("--order", "order.txt")):
                if rule == "megatron" and order:
                    continue
                (folder / f"{rule}.json").write_text(self.buckets("--gradients", "gradients.csv", "--rule", rule, *options, *order, "--format", "json"))
                self.assertIn("OK", self.buckets("--gradients", "gradients.csv", "--check", f"{rule}.json", "--rule", rule, *options, *order))
        check = ("--gradients", "gradients.csv", "--check")
        self.assertIn("error: cap: bucket ", self.buckets(*check, "unfused.json", "--rule", "torch", "--limits", "800", "--order", "order.txt", status=1))
        self.assertIn("error: cap: bucket ", self.buckets(*check, "flat.json", "--rule", "unfused", "--order", "order.txt", status=1))
        self.assertIn("error: order: gradient ", self.buckets(*check, "flat.json", "--rule", "megatron", status=1))
        (folder / "order.txt").write_text("c\na\nb\nd\n")
        self.assertIn("warning: waits: bucket ", self.buckets(*check, "unfused.json", "--order", "order.txt"))

    def test_what_a_command_reads_is_not_written_over(self):
        gradients = Path(self.folder) / "buckets.json"
        text = '[{"name": "a", "elements": 4, "dtype": "f32"}]'
        commands = [f"buckets --gradients {gradients} --format json --out {out}" for out in (gradients, self.folder)]
        for command in commands + [f"schedule --check {gradients} --out {gradients}"]:
            with self.subTest(command=command):
                gradients.write_text(text)
                self.assertEqual(self.run_plumbline(*command.split()), 2, self.done.stdout)
                self.assertIn(f"it would replace '{gradients}', which --", self.done.stderr)
                self.assertEqual(gradients.read_text(), text)
        # Another file of the folder, though it is named after the command, stays as it is.
        table = gradients.with_suffix(".csv")
        table.write_text("name,elements,dtype\na,4,f32\n")
        for file, out in ((gradients, gradients.with_name("plan.json")), (table, self.folder)):
            before = file.read_text()
            self.assertEqual(self.run_plumbline("buckets", "--gradients", str(file), "--format", "json", "--out", str(out)), 0,
                             self.done.stderr)
            self.assertEqual(file.read_text(), before)

    def test_a_record_that_a_command_reads_is_not_written_over(self):
        self.assertEqual(self.run_plumbline(*PASS, "--out", "shard"), 0, self.done.stderr)
        (self.folder / "known.toml").write_text("schema = 1\n")
        (self.folder / "link").symlink_to("shard")
        before = {file: file.read_bytes() for file in sorted((self.folder / "shard").iterdir())}
        for command in ("merge shard --out shard", "merge shard/run.jsonl --out ./shard/", "merge shard --out link",
                        "merge --out shard shard", "merge shard --out shard --frobnicate", "merge shard --out shard --out shard",
                        "merge shard '' --out shard",
                        "expectations update shard --file known.toml --out shard/run.jsonl",
                        "expectations prune shard --file known.toml --out known.toml"):
            with self.subTest(command=command):
                self.assertEqual(self.run_plumbline(*shlex.split(command)), 2, self.done.stdout)
                if "frobnicate" not in command and command.count("--out") == 1 and "''" not in command:
                    self.assertRegex(self.done.stderr, "--out '.*': it would replace '.*', which .* reads; give another f")
                self.assertEqual({file: file.read_bytes() for file in sorted((self.folder / "shard").iterdir())}, before)
                self.assertEqual((self.folder / "known.toml").read_text(), "schema = 1\n")

    def test_buckets_refuse_options_that_would_be_ignored(self):
        folder = Path(self.folder)
        (folder / "gradients.csv").write_text("name,elements,dtype\na,100,f32\n")
        (folder / "order.txt").write_text("a\n")
        (folder / "plan.json").write_text('{"buckets": [{"dtype": "f32", "elements": 100, "members": [[0, 0]]}]}')
        for options, words in (("--rule flat --limits 1MiB", "--limits: only for --rule torch"),
                               ("--check plan.json --limits 1MiB", "--limits: only for --rule torch"),
                               ("--check plan.json --rule flat --distributed-optimizer 2", "--distributed-optimizer: only for --rule megatron"),
                               ("--check plan.json --pad-for-bandwidth", "--pad-for-bandwidth: it needs --distributed-optimizer"),
                               ("--check plan.json --distributed-optimizer 0", "--distributed-optimizer: 0 ranks; there must be 1 or more"),
                               ("--check plan.json --format json", "--format: the report of --check is text"),
                               ("--check plan.json --ranks 4", "--ranks: only for --format svg"),
                               ("--backward 1", "--backward: only for --format svg"),
                               ("--format svg --backward 0", "--backward: 0 seconds have no picture; it must be above 0"),
                               ("--rule megatron --order order.txt", "--order: --rule megatron goes from the last gradient to the first")):
            self.buckets("--gradients", "gradients.csv", *options.split(), status=2)
            self.assertIn(words, self.done.stderr)
        # PyTorch's names of element types are taken, and ours are given.
        (folder / "torch.csv").write_text("name,elements,dtype\na,100,float32\nb,5,torch.bfloat16\n")
        table = self.buckets("--gradients", "torch.csv", "--rule", "flat")
        self.assertIn(" f32 ", table)
        self.assertIn(" bf16 ", table)
        for empty in ("", "name,elements,dtype\n"):
            (folder / "empty.csv").write_text(empty)
            self.buckets("--gradients", "empty.csv", status=2)
            self.assertIn("--gradients empty.csv: it has no gradients", self.done.stderr)
        (folder / "empty.json").write_text("[]")
        self.buckets("--gradients", "empty.json", status=2)
        self.assertIn("--gradients empty.json: it has no gradients", self.done.stderr)

    def test_buckets_as_a_picture(self):
        (Path(self.folder) / "gradients.csv").write_text("name,elements,dtype\na<b,1000000,f32\nb,500000,f32\n")
        svg = self.buckets("--gradients", "gradients.csv", "--rule", "unfused", "--format", "svg", "--backward", "0.03", "--ranks", "2",
                           "--latency", "0", "--bandwidth", "1e8")
        root = ElementTree.fromstring(svg)
        titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertIn("bucket 0: complete after 30 ms, reduced from 30 to 70 ms", titles)
        self.assertIn("bucket 1: complete after 10 ms, reduced from 70 to 90 ms", titles)
        self.assertIn("exposed: 60 ms", svg)
        axes = {}  # the labels of ticks, below each other
        for text in root.iter("{http://www.w3.org/2000/svg}text"):
            if text.get("text-anchor") == "middle" and text.get("font-size") == "11":
                axes.setdefault(text.get("y"), []).append((text.text, float(text.get("x"))))
        time_axis, size_axis = (axes[y] for y in sorted(axes, key=float))
        self.assertEqual([text for text, _ in time_axis], [str(ms) for ms in range(0, 91, 10)])
        self.assertEqual([text for text, _ in size_axis], ["0 B", *(f"{kib} KiB" for kib in (512, )), *(f"{mib:.1f} MiB" for mib in (1, 1.5, 2, 2.5, 3, 3.5))])
        (bar,) = [rect for rect in root.iter("{http://www.w3.org/2000/svg}rect") if "a<b: 1000000 elements from 0" in [one.text for one in rect]]
        of_mib = next(x for text, x in size_axis if text == "1.0 MiB") - size_axis[0][1]
        self.assertAlmostEqual(float(bar.get("width")), 4e6 / 2**20 * of_mib, delta=0.1)
        self.buckets("--gradients", "gradients.csv", "--format", "svg", "--ranks", "0", status=2)
        self.assertIn("--ranks: 0 is below 1", self.done.stderr)

    def test_buckets_of_a_plan_that_covers_a_gradient_twice_or_not_at_all(self):
        folder = Path(self.folder)
        (folder / "gradients.json").write_text('[{"elements": 3}, {"elements": 4}]')
        (folder / "plan.json").write_text('{"buckets": [{"dtype": "f32", "elements": 6, "members": [[0, 0], [0, 3]]}]}')
        text = self.buckets("--gradients", "gradients.json", "--check", "plan.json", status=1)
        self.assertEqual(text.splitlines()[:2], ["error: doubled: gradient 0 is in 2 places", "error: missing: gradient 1 is in no bucket"])
        (folder / "gradients.json").write_text('[{"name": "weight", "elements": 3}, {"name": "bias", "elements": 4}]')
        text = self.buckets("--gradients", "gradients.json", "--check", "plan.json", status=1)
        self.assertEqual(text.splitlines()[:2], ["error: doubled: gradient 0 is in 2 places ('weight')", "error: missing: gradient 1 is in no bucket ('bias')"])
        (folder / "gradients.json").write_text('[{"elements": -3}]')
        self.buckets("--gradients", "gradients.json", status=2)
        self.assertIn("--gradients gradients.json: gradients[0].elements must be 0 or more, got -3", self.done.stderr)

    # A gradient of two layers, each made, reduced over ring 12 and scaled.
    def step(self, **changes):
        def op(type, inputs, outputs, role, **attributes):
            return {"type": type, "inputs": inputs, "outputs": outputs, "attrs": {"op_role": role, **attributes}}
        scope = {"op_namescope": "/auto_parallel/data_parallel"}
        ops = [op("relu", {"X": ["x"]}, {"Out": ["y"]}, 0),
               op("fill_constant", {}, {"Out": ["y@GRAD"]}, 257, value=1.0, dtype="float32")]
        for name in ("w", "b"):
            ops += [op("relu_grad", {"Out": ["y"], "Out@GRAD": ["y@GRAD"]}, {"X@GRAD": [name + "@GRAD"]}, 1),
                    op("all_reduce", {"x": [name + "@GRAD"]}, {"out": [name + "@GRAD"]}, 1, ring_id=12, reduce_type="sum", **scope),
                    op("scale", {"X": [name + "@GRAD"]}, {"Out": [name + "@GRAD"]}, 1, scale=0.5, **scope)]
        for name in ("w", "b"):
            ops.append(op("sgd", {"Param": [name], "Grad": [name + "@GRAD"], "LearningRate": ["lr"]}, {"ParamOut": [name]}, 2))
        names = {"x": False, "y": False, "y@GRAD": False, "w@GRAD": False, "b@GRAD": False, "w": True, "b": True, "lr": True}
        variables = [{"name": name, "shape": [4], "dtype": "float32", "persistable": kept, "parameter": kept and name != "lr"}
                     for name, kept in names.items()]
        program = {"vars": variables, "ops": ops, "rings": {"0": [0, 1], "12": [0, 1]}}
        program.update(changes)
        return program

    def pass_of(self, program, *arguments, status=0):
        text = program if isinstance(program, str) else json.dumps(program)
        (Path(self.folder) / "program.json").write_text(text)
        self.assertEqual(self.run_plumbline("pass", "program.json", *arguments), status, self.done.stdout + self.done.stderr)
        return self.done.stdout

    def test_pass_shows_what_it_makes(self):
        text = self.pass_of(self.step())
        self.assertIn("all_reduce(coalesce_grad_0_0) -> (coalesce_grad_0_0) ring 12 sum", text)
        self.assertIn("2 Allreduce ops are fused into 1 coalesce allreduce ops", text)
        self.assertNotIn("scale(", text)
        difference = self.pass_of(self.step(), "--diff").splitlines()
        self.assertTrue(any(line.startswith("-") and "scale(w@GRAD)" in line for line in difference), difference)
        self.assertTrue(any(line.startswith("+") and "coalesce_tensor" in line for line in difference), difference)
        self.assertFalse(any("sgd" in line for line in difference), difference)
        self.assertTrue(any(line.endswith("new or changed") for line in difference), difference)

    def test_pass_as_json_and_in_a_file(self):
        result = json.loads(self.pass_of(self.step(), "--format", "json", "--check", "--diff"))
        self.assertEqual(result["races"], {"before": [], "after": []})
        self.assertEqual(result["summary"]["coalesce_allreduce_ops"], 1)
        self.assertIn({"change": "gone", "position": 4, "op": "scale(w@GRAD) -> (w@GRAD) scale=0.5"}, result["diff"])
        rings = self.step().pop("rings")
        (Path(self.folder) / "rings.json").write_text(json.dumps(rings))
        bare = self.step()
        del bare["rings"]
        self.pass_of(bare, "--rings", "rings.json", "--out", "made/")
        self.assertIn("written: ", self.done.stdout)
        self.assertIn("coalesce_tensor", (Path(self.folder) / "made" / "pass.txt").read_text())
        self.assertNotIn("coalesce", self.pass_of({"program": bare, "rings": rings}, "--use-sharding"))
        kept = self.pass_of(self.step(), "--keep-scaling", "--max-fuse-numel", "4")
        self.assertIn("scale(w@GRAD)", kept)
        self.assertIn("no pruning: it is not wanted", kept)
        sharded = self.pass_of(self.step(), "--use-sharding")
        self.assertIn("no fusion: parameters are sharded", sharded)
        self.assertNotIn("nothing is reduced", sharded)
        self.assertIn("closed by the limit at op", self.pass_of(self.step(), "--max-fuse-numel", "4"))

    def test_pass_checks_for_races(self):
        self.assertIn("OK: 0 races before the pass, 0 after it", self.pass_of(self.step(), "--check"))
        hidden = self.step()
        hidden["ops"][5]["attrs"]["op_role"] = 0  # an op of the forward in the backward, after the first reduction
        self.assertIn("OK: 0 races before the pass, 0 after it", self.pass_of(hidden, "--check"))
        hidden["ops"].insert(8, dict(hidden["ops"][0], inputs={"X": ["x"]}, outputs={"Out": ["y@GRAD"]}))
        text = self.pass_of(hidden, "--check", "--convention", "paddle", status=1)
        self.assertIn("race after the pass: w@GRAD: op", text)
        self.assertIn("NOT OK: 0 races before the pass", text)

    # Both gradients in one variable, whose reduction stands before the op that makes the second of them.
    def test_pass_against_another_program(self):
        step = self.step()
        copy = lambda: json.loads(json.dumps(step))
        (self.folder / "before.json").write_text(json.dumps(step))

        def against(after, *arguments, status=1):
            (self.folder / "after.json").write_text(json.dumps(after))
            self.assertEqual(self.run_plumbline("pass", "before.json", "--against", "after.json", *arguments), status,
                             self.done.stdout + self.done.stderr)
            return self.done.stdout if status < 2 else self.done.stderr
        made = json.loads(self.pass_of(step, "--format", "json"))
        self.assertNotIn("same_as", made["final"])
        self.assertRegex(against(made, status=0), r"^OK: 0 of [1-9]\d* gradients, parameters and values that persist differ on 2 ranks\n$")
        reductions = [i for i, op in enumerate(step["ops"]) if op["type"] == "all_reduce"]
        name = step["ops"][reductions[0]]["inputs"]["x"][0]
        lost = copy()
        del lost["ops"][reductions[0]]
        text = against(lost)
        self.assertRegex(text, rf"^rank 0: the gradient of '{name.removesuffix('@GRAD')}', element \d+: expected \S+, got \S+ \(inputs of seed 1\)\n"
                         rf"  before: op \d+, .*-> \({name}\).*\n  after: op \d+, .*-> \({name}\).*\nNOT OK: ")
        found = json.loads(against(lost, "--format", "json", "--seed", "7"))
        self.assertFalse(found["equal"])
        first = found["differences"][0]
        self.assertEqual((first["variable"] + "@GRAD", first["gradient"], first["seed"]), (name, True, 7))
        self.assertNotEqual(first["expected"], first["got"])
        rings = {"rings": step["rings"]}
        one = {key: value for key, value in step.items() if key != "rings"}
        silent = json.loads(json.dumps(one))
        silent["ops"] = [op for op in silent["ops"] if op["type"] != "all_reduce"]
        self.assertRegex(against({"programs": [one, silent], **rings}),
                         rf"^NOT OK: the order of collectives differs: a rank waits: rank 0 at op {reductions[0]}, all_reduce sum of")
        for after, arguments, words in (({}, [], "--against after.json.vars must be a list"),
                                        ({"programs": []}, [], "programs must be a list of programs, one for each rank"),
                                        ({"programs": [one, one, one]}, [], "3 programs for 2 ranks; one for all, or one for each"),
                                        (step, ["--diff"], "--against excludes --diff"),
                                        (step, ["--inputs", "0"], "--inputs: '0' is not a whole number from 1 to 1000"),
                                        (step, ["--out", "after.json"], "it would replace 'after.json', which --against reads")):
            with self.subTest(words):
                self.assertIn(words, against(after, *arguments, status=2))
                self.assertEqual(self.done.stderr.count("\n"), 1)

    def test_pass_checks_that_no_gradient_is_made_after_its_buckets_reduction(self):
        def fused(reduced_at, copies, coalesced_at=2):
            program = self.step()
            names = ["w@GRAD", "b@GRAD"]
            ops = [op for op in program["ops"] if op["type"] not in ("all_reduce", "scale")]  # relu, fill, two derivatives, two updates
            reduction = dict(program["ops"][3], inputs={"x": ["fused"]}, outputs={"out": ["fused"]})
            ops.insert(reduced_at, reduction)
            ops.insert(coalesced_at, {"type": "coalesce_tensor", "inputs": {"Input": names}, "outputs": {"Output": names, "FusedOutput": ["fused"]},
                                      "attrs": {"op_role": 1, "copy_data": copies, "dtype": "float32"}})
            program["vars"].append({"name": "fused", "shape": [8], "dtype": "float32", "persistable": False, "parameter": False})
            return dict(program, ops=ops)
        for copies in (False, True):
            self.assertIn("OK: 0 races before the pass, 0 after it", self.pass_of(fused(4, copies), "--check"))
            text = self.pass_of(fused(3, copies), "--check", status=1)
            self.assertEqual(text, "error: used_before_written: op 4 (all_reduce) reads 'b@GRAD', which is a part of 'fused', before op 5 (relu_grad), "
                                   "the first to write it\nNOT OK: 1 error in the order of ops; the pass is not applied\n")
            found = json.loads(self.pass_of(fused(3, copies), "--check", "--format", "json", status=1))["problems"]
            self.assertEqual([(one["fault"], one["op"], one["variable"]) for one in found], [("used_before_written", 4, "b@GRAD")])
            self.pass_of(fused(3, copies), status=2)
            self.assertIn("op 4 (all_reduce) reads 'b@GRAD', which is a part of 'fused', before op 5 (relu_grad)", self.done.stderr)
        # What was made before the memory became one is there only where it is copied.
        self.assertIn("OK: 0 races before the pass, 0 after it", self.pass_of(fused(4, True, coalesced_at=3), "--check"))
        text = self.pass_of(fused(4, False, coalesced_at=3), "--check", status=1)
        self.assertIn("error: not_copied: op 5 (all_reduce) reads 'w@GRAD', which is a part of 'fused', after op 3 (coalesce_tensor), "
                      "which does not copy what op 2 (relu_grad) wrote\n", text)

    def test_pass_refuses_programs_that_cannot_run(self):
        def changed(change):
            program = self.step()
            change(program)
            return program
        early = changed(lambda one: one["ops"].insert(0, one["ops"].pop(4)))
        cycle = changed(lambda one: one["ops"][1].update(inputs={"ValueTensor": ["w@GRAD"]}))
        for program, words in (
                ('{"vars": [],\n "ops": [,]}', "program program.json, line 2, column 10: this is not JSON"),
                (changed(lambda one: one["ops"][0].update(type="rellu")), "op 0 has the type 'rellu', which is not known"),
                (changed(lambda one: one["ops"][0]["inputs"].update(Z=["x"])), "op 0 (relu) has inputs 'Z'; there are X"),
                (early, "op 0 (scale) reads 'w@GRAD' before op 3 (relu_grad), the first to write it"),
                (cycle, "which needs what it makes itself"),
                (changed(lambda one: one["rings"].pop("12")), "runs over ring 12, and there is no such ring"),
                (changed(lambda one: one["vars"][0].update(shape=[-4])), "program program.json.vars[0]"),
                (changed(lambda one: one["ops"][3]["attrs"].update(ring_id=1 << 40)), "1099511627776, more than 32 bits hold"),
                (changed(lambda one: one["ops"][4]["attrs"].update(scale=1e300)), "more than a float32 holds"),
                (changed(lambda one: one["rings"].update({"12": [0, 0]})), "has a rank twice"),
                (changed(lambda one: one.pop("rings")), "it has no rings"),
                ({"program": self.step(), "rings": {}, "more": 1}, "beside program and rings there is 'more'"),
                ("[]", "must be an object")):
            with self.subTest(words):
                self.assertEqual(self.pass_of(program, status=2), "")
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertIn(words, self.done.stderr)

    def test_topology_of_no_axes(self):
        for option, arguments in (("--axes", ["--axes", "", "--dims", "2"]), ("--dims", ["--axes", "a", "--dims", ""])):
            self.assertEqual(self.run_plumbline("topology", *arguments), 2)
            self.assertIn(f"{option}: the value is empty; give one, or leave the option out", self.done.stderr)

    def test_values_that_are_empty_are_refused(self):
        for arguments in (["check", "--out", ""], ["bench", "--out", ""], ["train", "--spec", ""], ["mutants", "--filter", ""]):
            self.assertEqual(self.run_plumbline(*arguments), 2)
            self.assertIn(f"{arguments[1]}: the value is empty; give one, or leave the option out", self.done.stderr)
            self.assertEqual(os.listdir(self.folder), [])

    def topology(self, *arguments, status=0):
        self.assertEqual(self.run_plumbline("topology", *arguments), status, self.done.stdout + self.done.stderr)
        return self.done.stdout

    def topology_json(self, *arguments):
        return json.loads(self.topology(*arguments, "--format", "json"))

    def test_topology_says_who_is_where(self):
        text = self.topology(*TOPOLOGY[1:], "--ranks-per-node", "4", "--bytes", "data=1e6")
        for line in ("pipe=2 data=3 model=2: 12 ranks, model fastest, convention plumbline; 3 nodes of 4",
                     "     5      0      2      1      1", "  data: 4 groups of 3, 4 cross nodes",
                     "    [0 2 4]* [1 3 5]* [6 8 10]* [7 9 11]*", "    [0 1] [2 3] [4 5] [6 7] [8 9] [10 11]"):
            self.assertIn(line + "\n", text)
        # Each rank of the drawn grid, in order, and a border before each rank that begins a node.
        drawn = text[text.index("grid of ranks"):text.index("coordinates")].splitlines()[-2]
        self.assertEqual(drawn.replace("|", " ").split(), [str(rank) for rank in range(12)])
        self.assertEqual([cell.split()[0] for cell in drawn.split("|")[1:]], ["4", "8"])

    def test_topology_in_json(self):
        sizes = {"pipe": 2, "data": 3, "model": 2}
        found = self.topology_json(*TOPOLOGY[1:], "--ranks-per-node", "4", "--bytes", "data=1e6,model=7")
        coordinates = [[pipe, data, model] for pipe in range(2) for data in range(3) for model in range(2)]
        self.assertEqual(found["coordinates"], coordinates)
        self.assertEqual([kind["axes"] for kind in found["groups"]], [[axis] for axis in sizes])
        for axis, kind in enumerate(found["groups"]):
            groups = {}
            for rank, at in enumerate(coordinates):
                groups.setdefault(tuple(at[:axis] + at[axis + 1:]), []).append(rank)
            self.assertEqual(kind["ranks"], list(groups.values()))
            self.assertEqual(kind["crossing"], sum(len({rank // 4 for rank in group}) > 1 for group in groups.values()))
        self.assertEqual([(kind["axes"], kind["first"]) for kind in found["creations"]],
                         [(["data"], 0), (["pipe"], 4), (["model"], 10), (["pipe", "model"], 16)])
        edges = sum(group[i] // 4 != group[i - 1] // 4 for group in found["groups"][1]["ranks"] for i in range(3))
        self.assertEqual(found["placement"]["crossing_bytes"]["data"], edges * 10**6)
        self.assertLessEqual(found["placement"]["best"]["total"], found["placement"]["total"])

    def test_topology_by_convention(self):
        def data_groups(convention):
            found = self.topology_json(*TOPOLOGY[1:], "--convention", convention)
            return next(kind["ranks"] for kind in found["groups"] if kind["axes"] == ["data"])
        for convention in ("plumbline", "deepspeed", "megatron", "torch"):
            self.assertEqual(data_groups(convention)[0], [0, 2, 4], convention)
        self.assertEqual(data_groups("colossalai")[0], [0, 4, 8])
        text = self.topology(*TOPOLOGY[1:], "--convention", "deepspeed")
        order = [re.match(r" *\d+ to +\d+  (.*?)  ", line)[1].strip() for line in text[text.index("new groups"):].splitlines()[1:]]
        self.assertEqual(order, ["pipe x model", "data", "pipe", "model"])

    def test_topology_of_one_rank(self):
        text = self.topology(*TOPOLOGY[1:], "--rank", "5", "--ranks-per-node", "6")
        for words in ("coordinates  pipe 0, data 2, model 1", "node         0 (ranks 0 to 5)", "stage        0 of 2, the first",
                      "p2p pairs    (5, 11) to the next stage, (11, 5) from the one before"):
            self.assertIn(words + "\n", text)
        found = self.topology_json(*TOPOLOGY[1:], "--rank", "5")
        self.assertEqual({group["axis"]: (group["previous"], group["next"], group["ranks"]) for group in found["groups"]},
                         {"pipe": (11, 11, [5, 11]), "data": (3, 1, [1, 3, 5]), "model": (4, 4, [4, 5])})
        self.assertEqual(found["getters"]["model_parallel"], {"rank": 1, "world_size": 4, "ranks": [4, 5, 10, 11]})
        self.assertEqual(found["stage"]["p2p_pair"], [5, 11])
        self.assertEqual([one["creation"] for one in found["creations"]], [1, 9, 12, 18])
        self.assertIn("no stage and no getters", self.topology("--axes", "a,b", "--dims", "2,3", "--rank", "4"))

    def test_topology_pictures_are_xml_with_every_rank_in_every_panel(self):
        for axes, dims in (("pipe,data,model", "2,3,2"), ("a<&>,b", "5,3"), ("data", "37"), ("a,b,c,d,e", "2,3,1,2,4")):
            with self.subTest(axes):
                self.topology("--axes", axes, "--dims", dims, "--ranks-per-node", "4", "--rank", "3", "--format", "svg",
                              "--out", "grid.svg")
                root = ElementTree.parse(self.folder / "grid.svg").getroot()
                name = "{http://www.w3.org/2000/svg}"
                self.assertEqual(root.tag, name + "svg")
                ranks = [int(cell.find(name + "text").text) for cell in root.iter(name + "g") if cell.get("class") == "rank"]
                world = eval(dims.replace(",", "*"))
                self.assertEqual(sorted(ranks), sorted(list(range(world)) * len(axes.split(","))))

    def test_topology_pictures_have_a_colour_for_each_group_and_a_number_for_each_node(self):
        for dims, per_node in (("2,3,2", 4), ("2,32,8", 8)):
            found = self.topology_json("--axes", "a,b,c", "--dims", dims, "--ranks-per-node", str(per_node))
            root = ElementTree.fromstring(self.topology("--axes", "a,b,c", "--dims", dims, "--ranks-per-node", str(per_node),
                                                        "--format", "svg"))
            name = "{http://www.w3.org/2000/svg}"
            panels = [panel for panel in root if panel.find(name + "g") is not None]
            self.assertEqual(len(panels), 3)
            for panel, kind in zip(panels, found["groups"]):
                cells = [cell for cell in panel.iter(name + "g") if cell.get("class") == "rank"]
                fills = {int(cell.find(name + "text").text): cell.find(name + "rect").get("fill") for cell in cells}
                by_group = [{fills[rank] for rank in group} for group in kind["ranks"]]
                self.assertEqual({len(colours) for colours in by_group}, {1})
                self.assertEqual(len(set.union(*by_group)), kind["count"], "no two groups of an axis look alike")
                numbers = {text.text for text in panel.iter(name + "text") if re.fullmatch(r"n\d+", text.text)}
                self.assertEqual(numbers, {f"n{node}" for node in range(found["nodes"])})

    def test_topology_is_written_where_it_is_said(self):
        (self.folder / "pictures").mkdir()
        self.assertEqual(self.topology(*TOPOLOGY[1:], "--format", "svg", "--out", "pictures"), "written: pictures/topology.svg\n")
        self.assertTrue((self.folder / "pictures/topology.svg").exists())
        self.topology(*TOPOLOGY[1:], "--out", "grid.txt")
        self.assertEqual((self.folder / "grid.txt").read_text(), self.topology(*TOPOLOGY[1:]))

    def test_topology_compares_conventions(self):
        text = self.topology(*TOPOLOGY[1:], "--compare")
        self.assertIn("colossalai                                     [0 4 8] [1 5 9] [2 6 10] [3 7 11]\n", text)
        found = self.topology_json("--axes", "dp,pp,tp", "--dims", "3,2,2", "--compare")
        self.assertEqual({mode["mode"]: mode["differs"] for mode in found["modes"]},
                         {"data": True, "pipeline": True, "tensor": False, "model": True})
        self.assertEqual(found["creation_order"]["megatron"], ["data", "model", "tensor", "pipeline"])

    def test_topology_of_a_million_ranks(self):
        big = ["--axes", "pipe,data,model", "--dims", "64,2048,8", "--ranks-per-node", "8"]
        text = self.topology(*big)
        self.assertIn("  data: 512 groups of 2048, 512 cross nodes\n", text)
        self.assertLess(len(text), 4000)
        self.assertIn("(777777, 794161) to the next stage", self.topology(*big, "--rank", "777777"))

    def lint(self, creations, *arguments, status):
        lines = [json.dumps({"rank": rank, "ranks": ranks}) for rank, ranks in creations]
        (self.folder / "groups.jsonl").write_text("\n".join(lines))
        return self.topology("--lint", "groups.jsonl", *arguments, status=status).splitlines()

    def test_topology_lint(self):
        clean = [(rank, ranks) for rank in range(4) for ranks in ([0, 1], [2, 3])]
        self.assertEqual(self.lint(clean, status=0),
                         ["OK: groups.jsonl: 8 creations of 4 ranks under rule all_ranks; 0 errors, 0 warnings"])
        swapped = clean[:2] + [clean[3], clean[2]] + clean[4:]
        found = self.lint(swapped, status=1)
        self.assertIn("error order: rank 1, creation 0, makes [2 3] where rank 0 makes [0 1]", found[0])
        self.assertTrue(found[-1].startswith("NOT OK: groups.jsonl: 8 creations of 4 ranks"), found)
        self.assertEqual(self.lint(swapped, "--rule", "members_only", status=0)[-1][:3], "OK:")
        self.assertTrue(any("missing" in line for line in self.lint(clean, "--world-size", "5", status=1)))
        lines = [json.dumps({"rank": rank, "ranks": [0, 1], "mode": "ENDS"}) for rank in range(3)]
        (self.folder / "groups.jsonl").write_text("\n".join(lines))
        self.assertIn("error cover: rank 2 is in no group of mode 'ENDS'", self.topology("--lint", "groups.jsonl", status=1))
        found = json.loads(self.topology("--lint", "groups.jsonl", "--format", "json", status=1))["findings"][0]
        self.assertEqual((found["rank"], found["sequence"]), (2, None))
        self.topology("--lint", "groups.jsonl", "--partial", "ENDS")
        self.topology("--lint", "groups.jsonl", "--partial", "DATA", "--partial", "ENDS", status=2)
        self.assertIn("--partial 'DATA': there is no such mode in 'groups.jsonl'; there are [ENDS]", self.done.stderr)
        found = json.loads("\n".join(self.lint(swapped, "--format", "json", status=1)))
        self.assertEqual((found["valid"], found["findings"][0]["kind"]), (False, "order"))

    def test_topology_lint_of_a_file_that_is_wrong(self):
        for text, words in (("{}", "line 1: rank is missing"), ('\n{"rank":0,', "line 2: is no JSON"),
                            ('{"rank":0,"ranks":[0]}\n{"rank":0,"ranks":[0,"a"]}', "line 2: ranks[1] must be an integer"),
                            ('{"rank":-1,"ranks":[0]}', "line 1: rank must be an integer from 0")):
            with self.subTest(words):
                (self.folder / "groups.jsonl").write_text(text)
                self.topology("--lint", "groups.jsonl", status=2)
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertIn("plumbline: --lint 'groups.jsonl': ", self.done.stderr)
                self.assertIn(words, self.done.stderr)

    @needs_training
    def test_train_runs_a_specification_as_a_job_does(self):
        self.assertEqual(self.run_plumbline("train", "--steps", "3", "--out", "out"), 0, self.done.stderr)
        self.assertIn("OK: the single device computes the same", self.done.stdout)
        job = ["train", "--spec", "out/run/spec.toml", "--record", "record", "--no-judge"]
        self.assertEqual(self.run_plumbline(*job), 0, self.done.stderr)
        for rank in (0, 1):
            name = f"rank{rank}.safetensors"
            self.assertEqual((self.folder / "record" / name).read_bytes(), (self.folder / "out/record" / name).read_bytes())
        self.assertFalse((self.folder / "results").exists(), "a job leaves its record and nothing else")

    def started_training(self):
        """A long run whose ranks have begun, and the processes of its worker."""
        scratch = self.folder / "tmp"
        scratch.mkdir()
        process = subprocess.Popen([PLUMBLINE, "train", "--steps", "20000", "--no-judge", "--out", "out"], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=dict(os.environ, PLUMBLINE_TMPDIR=str(scratch)))
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        self.assertIn("20000 steps", line)
        for _ in range(1200):
            if any(scratch.glob("plumbline-*/*/run1")):  # the folder of what its ranks are to run
                return process, [int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
            time.sleep(0.05)
        return self.fail("its ranks have not begun")

    @needs_training
    def test_train_whose_rank_is_killed_from_outside_is_the_machines_fault(self):
        process, workers = self.started_training()
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, said)
        self.assertIn("was killed by signal 9 (Killed)", said)

    @needs_training
    def test_train_that_is_interrupted_says_so(self):
        process, _ = self.started_training()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertEqual((process.returncode, said), (3, "plumbline: train: a signal interrupted the run\n"))

    @needs_training
    def test_train_of_a_pipeline_computes_what_a_single_device_computes(self):
        for schedule, chunks in (("1f1b", 1), ("looped-bfs", 2), ("dualpipev", 2)):
            self.assertEqual(self.run_plumbline("train", "--pipeline", "2", "--data-parallel", "2", "--micro-batches", "4",
                                                "--batch", "16", "--schedule", schedule, "--chunks", str(chunks),
                                                "--steps", "3", "--out", "out"), 0, self.done.stderr)
            self.assertIn("3 steps of 16 rows on 4 ranks", self.done.stdout)
            self.assertIn("OK: the single device computes the same", self.done.stdout)
        self.assertEqual(self.run_plumbline("train", "--pipeline", "2", "--data-parallel", "1", "--micro-batches", "2",
                                            "--schedule", "dualpipev", "--chunks", "2", "--out", "other"), 2)
        self.assertIn("--schedule 'dualpipev' with --pipeline 2, --micro-batches 2", self.done.stderr)

    @needs_training
    def test_train_in_a_devices_memory_leaves_the_record_of_the_hosts(self):
        for ranks, options in ((3, ("--model", "conv_norm", "--data-parallel", "3", "--accumulation", "2", "--bucket-size", "4KiB")),
                               (4, ("--pipeline", "2", "--data-parallel", "2", "--micro-batches", "4", "--schedule", "zb-h1")),
                               (2, ("--model", "pairs", "--tensor", "2", "--data-parallel", "1", "--precision", "fp16")),
                               (2, ("--data-parallel", "2", "--compression", "int8", "--static-graph"))):
            with self.subTest(options):
                run = ["train", *options, "--batch", "48", "--steps", "3"]
                self.assertEqual(self.run_plumbline(*run, "--out", "host"), 0, self.done.stdout + self.done.stderr)
                self.assertEqual(self.run_plumbline(*run, "--device", "emulated", "--out", "out"), 0, self.done.stdout + self.done.stderr)
                self.assertRegex(self.done.stdout, rf"3 steps of \d+ rows on {ranks} ranks?, emulated\n")
                self.assertIn("OK: the single device computes the same", self.done.stdout)
                for rank in range(ranks):
                    name = f"record/rank{rank}.safetensors"
                    self.assertEqual((self.folder / "out" / name).read_bytes(), (self.folder / "host" / name).read_bytes(), name)
        subject = next(line for line in map(json.loads, (self.folder / "out/run.jsonl").read_text().splitlines()) if line["type"] == "subject")
        self.assertEqual(subject["environment"]["device.runtime"], "emulated")
        job = ["train", "--spec", "out/run/spec.toml", "--record", "record", "--no-judge"]
        self.assertEqual(self.run_plumbline(*job), 0, self.done.stderr)
        if "mpi" in MODULES:
            self.check_refusals([("train --backend mpi --device emulated", 2,
                                  "device emulated with --backend mpi; backend local serves memory of emulated devices")])

    @needs_training
    def test_train_averages_parameters_beside_one_device(self):
        run = ["train", "--averaging", "slowmo,sgp", "--slowmo-frequency", "4", "--steps", "12", "--data-parallel", "3",
               "--seeds", "2", "--margin", "100", "--out", "out"]
        self.assertEqual(self.run_plumbline(*run), 0, self.done.stdout + self.done.stderr)
        self.assertIn("12 steps of 96 rows on 3 ranks on cpu, 2 seeds", self.done.stdout)
        self.assertIn("OK: every step is what the papers say (requirements: 7 of 7 pass)", self.done.stdout)
        self.assertIn("warning: slowmo: slow_frequency is 4, which is no multiple of local_sgd_frequency, 3", self.done.stderr)
        curves = json.loads((self.folder / "out/averaging.json").read_text())
        self.assertEqual([(one["algorithm"], one["seed"]) for one in curves],
                         [(name, seed) for name in ("one device", "slowmo", "sgp") for seed in (1, 2)])
        for one in curves[2:]:
            self.assertEqual({len(one[list]) for list in ("loss", "distance_largest", "distance_mean")}, {12})
            self.assertEqual(len(one["rank_accuracies"]), 3)
        # After a slow step all ranks are alike, and before it they are not.
        self.assertEqual([distance == 0 for distance in curves[2]["distance_largest"]],
                         [(step + 1) % 3 == 0 or (step + 1) % 4 == 0 for step in range(12)])
        self.assertTrue((self.folder / "out/averaging.svg").read_text().startswith("<svg "))

    def test_train_averages_parameters_in_memory_of_devices(self):
        run = ["train", "--averaging", "slowmo", "--averaging-base", "sgp", "--slowmo-frequency", "2", "--steps", "4",
               "--data-parallel", "2", "--margin", "100"]
        self.assertEqual(self.run_plumbline(*run, "--out", "host"), 0, self.done.stdout + self.done.stderr)
        self.assertEqual(self.run_plumbline(*run, "--device", "emulated", "--out", "device"), 0, self.done.stdout + self.done.stderr)
        self.assertIn("on 2 ranks on emulated", self.done.stdout)
        host, device = ((self.folder / out / "averaging.json").read_text() for out in ("host", "device"))
        self.assertEqual(host, device)

    def averaged(self, *options):
        ranks = () if "--data-parallel" in options else ("--data-parallel", "3")
        return self.run_plumbline("train", "--averaging", "slowmo,sgp", "--slowmo-frequency", "6", *ranks, "--margin", "100",
                                  *options)

    @needs_training
    def test_train_goes_on_averaging_from_a_checkpoint_in_the_middle_of_a_cycle(self):
        self.assertEqual(self.averaged("--steps", "14", "--out", "whole"), 0, self.done.stdout + self.done.stderr)
        saved = ("--checkpoints", "saved", "--checkpoint-steps", "4")
        self.assertEqual(self.averaged("--steps", "9", *saved, "--out", "first"), 0, self.done.stdout + self.done.stderr)
        self.assertEqual(self.averaged("--steps", "14", *saved, "--out", "again"), 2)
        self.assertIn("seed1/slowmo' has some of a run; --resume it, or give another folder", self.done.stderr)
        self.assertEqual(self.averaged("--steps", "7", *saved, "--resume", "--out", "fewer"), 2)
        self.assertIn("has a checkpoint after step 9", self.done.stderr)
        for option, value, words in (("--optimizer", "adam", "optimizer is sgd(lr=0.1,"), ("--micro-batches", "2", "micro_batches is 1 there and 2 here"),
                                     ("--accumulation", "2", "accumulation is 1 there and 2 here"),
                                     ("--precision", "bf16", "dtype is float32 there and bfloat16 here"),
                                     ("--slowmo-lr", "0.5", "slowmo-lr is ")):
            with self.subTest(option):
                self.assertEqual(self.averaged("--steps", "14", option, value, *saved, "--resume", "--out", "other"), 2)
                self.assertIn(words, self.done.stderr)
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
        with self.subTest("more ranks"):
            before = sorted(file.stat().st_mtime_ns for file in (self.folder / "saved").rglob("*.safetensors"))
            self.assertEqual(self.averaged("--steps", "14", "--data-parallel", "4", *saved, "--resume", "--out", "more"), 2,
                             self.done.stdout + self.done.stderr)
            self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
            self.assertIn("it is of rank 0 of 3; rank 0 of 4 reads it", self.done.stderr)
            self.assertEqual(sorted(file.stat().st_mtime_ns for file in (self.folder / "saved").rglob("*.safetensors")), before)
        # A file of one rank that is missing: the checkpoint before is the last one.
        os.remove(self.folder / "saved/seed1/sgp/step-9/rank2.safetensors")
        self.assertEqual(self.averaged("--steps", "14", *saved, "--resume", "--out", "second"), 0, self.done.stdout + self.done.stderr)
        self.assertIn("slowmo, seed 1: continues from step 9", self.done.stdout)
        self.assertIn("sgp, seed 1: continues from step 8", self.done.stdout)
        self.assertIn("OK: every step is what the papers say", self.done.stdout)
        self.assertEqual((self.folder / "second/averaging.json").read_text(), (self.folder / "whole/averaging.json").read_text())

    # A checkpoint adds what is under way, so the run that it is compared with has the same checkpoints.
    @needs_training
    def test_train_that_lags_goes_on_to_what_a_run_with_its_checkpoints_has(self):
        lagging = ("--averaging-base", "sgp", "--gossip-graph", "star", "--overlap", "--overlap-lag", "2")
        for precision in ("fp32", "fp16"):
            with self.subTest(precision):
                run = (*lagging, "--precision", precision, "--checkpoint-steps", "4")
                saved = (*run, "--checkpoints", f"saved-{precision}")
                self.assertEqual(self.averaged("--steps", "14", *run, "--checkpoints", f"whole-{precision}", "--out", "whole"), 0,
                                 self.done.stdout + self.done.stderr)
                self.assertIn("train.averaging[TRAIN-201]", (self.folder / "whole/run.jsonl").read_text())
                self.assertEqual(self.averaged("--steps", "10", *saved, "--out", "first"), 0, self.done.stdout + self.done.stderr)
                self.assertEqual(sorted(folder.name for folder in (self.folder / f"saved-{precision}/seed1/sgp").iterdir()),
                                 ["step-4", "step-8"])
                self.assertEqual(self.averaged("--steps", "14", *saved, "--resume", "--out", "second"), 0,
                                 self.done.stdout + self.done.stderr)
                self.assertIn("sgp, seed 1: continues from step 8", self.done.stdout)
                self.assertIn("OK: every step is what the papers say", self.done.stdout)
                for step in ("step-4", "step-8", "step-12"):
                    for file in sorted((self.folder / f"whole-{precision}/seed1/sgp" / step).iterdir()):
                        again = self.folder / f"saved-{precision}/seed1/sgp" / step / file.name
                        self.assertEqual(file.read_bytes(), again.read_bytes(), f"{step}/{file.name}")
                self.assertEqual((self.folder / "second/averaging.json").read_text(),
                                 (self.folder / "whole/averaging.json").read_text())
        self.assertEqual(self.averaged("--steps", "14", *lagging, "--checkpoint-steps", "5", "--checkpoints", "saved-fp32",
                                       "--resume", "--out", "other"), 2)
        self.assertIn("checkpoint-steps is 4 there and 5 here", self.done.stderr)
        self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)

    @needs_training
    def test_train_averages_in_16_bits_and_beside_the_backward(self):
        for options, judged in ((("--precision", "fp16"), "TRAIN-052"), (("--precision", "bf16"), "TRAIN-052"),
                                (("--averaging-base", "sgp", "--gossip-graph", "star", "--overlap"), "TRAIN-110"),
                                (("--averaging-base", "sgp", "--overlap", "--overlap-lag", "2"), "TRAIN-110"),
                                (("--averaging-base", "sgp", "--gossip-graph", "star", "--overlap", "--precision", "fp16"), "TRAIN-200"),
                                (("--averaging-base", "sgp", "--overlap", "--overlap-lag", "2", "--precision", "bf16"), "TRAIN-200")):
            with self.subTest(options):
                self.assertEqual(self.averaged("--steps", "14", *options, "--out", "out"), 0, self.done.stdout + self.done.stderr)
                self.assertIn("OK: every step is what the papers say", self.done.stdout)
                self.assertIn(f"train.averaging[{judged}]", (self.folder / "out/run.jsonl").read_text())

    @needs_training
    def test_train_says_of_what_its_accuracy_is(self):
        for model, what in (("transformer", "tokens"), ("mlp", "digits")):
            with self.subTest(model):
                self.assertEqual(self.run_plumbline("train", "--model", model, "--steps", "1", "--backend", "local", "--out", "out"), 0,
                                 self.done.stdout + self.done.stderr)
                self.assertRegex(self.done.stdout, rf"\naccuracy    [0-9.]+ % of the held-out {what}\n")

    @needs_training
    def test_train_compares_accuracies_where_the_rate_decays(self):
        run = ["train", "--averaging", "localsgd", "--steps", "6", "--data-parallel", "2", "--lr-decay", "0.8", "--out", "out"]
        self.assertEqual(self.run_plumbline(*run, "--margin", "100"), 0, self.done.stdout + self.done.stderr)
        self.assertIn("train.accuracy[localsgd]", (self.folder / "out/run.jsonl").read_text())
        one, averaged = json.loads((self.folder / "out/averaging.json").read_text())
        # All rows are the single device's; with a rate that does not decay its loss would be 0.06 less.
        self.assertAlmostEqual(one["loss"][5], averaged["loss"][5], delta=0.02)

    @needs_training
    @needs_mpi
    def test_train_averages_over_mpi_as_on_threads(self):
        losses = []
        for backend in ("local", "mpi"):
            run = ["train", "--averaging", "slowmo,sgp", "--slowmo-frequency", "6", "--steps", "12", "--data-parallel", "2",
                   "--margin", "100", "--backend", backend, "--out", backend]
            self.assertEqual(self.run_plumbline(*run), 0, self.done.stdout + self.done.stderr)
            self.assertIn("OK: every step is what the papers say (requirements: 7 of 7 pass)", self.done.stdout)
            losses.append([one["loss"] for one in json.loads((self.folder / backend / "averaging.json").read_text())])
        for local, mpi in zip(*losses):
            for step, (one, other) in enumerate(zip(local, mpi)):
                self.assertAlmostEqual(one, other, places=4, msg=f"step {step}")

    @needs_training
    @unittest.skipUnless(WOVEN.exists(), "no woven build, which has the mutants that are edits")
    def test_train_says_what_averages_otherwise_than_the_papers(self):
        run = ["train", "--averaging", "localsgd", "--steps", "7", "--data-parallel", "3", "--margin", "100", "--out", "out"]
        self.assertEqual(self.run_plumbline(*run, "--mutant", "train.averages_a_step_early", program=WOVEN), 1,
                         self.done.stderr)
        self.assertIn("FAIL  localsgd, seed 1: TRAIN-043: step 0", self.done.stdout)
        self.assertIn("NOT OK: not every step is what the papers say", self.done.stdout)

    @needs_training
    def test_train_with_fewer_ranks_than_before(self):
        for ranks in ("3", "2"):
            self.assertEqual(self.run_plumbline("train", "--data-parallel", ranks, "--steps", "2", "--out", "out"), 0,
                             self.done.stdout + self.done.stderr)

    @needs_training
    def test_train_that_is_refused_leaves_the_training_record_that_was_there(self):
        self.assertEqual(self.run_plumbline("train", "--steps", "2", "--out", "out"), 0, self.done.stderr)
        before = sorted(os.listdir(self.folder / "out/record"))
        self.assertEqual(self.run_plumbline("train", "--data-parallel", "96", "--out", "out"), 2)
        self.assertIn("--data-parallel: 96 ranks; at most 64", self.done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder / "out/record")), before)

    @needs_training
    def test_train_that_diverges_comes_to_its_end(self):
        self.assertEqual(self.run_plumbline("train", "--steps", "2", "--no-judge", "--out", "out"), 0, self.done.stderr)
        spec = self.folder / "out/run/spec.toml"
        lines = ["lr = 1e30" if line.startswith("lr =") else line for line in spec.read_text().splitlines()]
        spec.write_text("\n".join(lines))
        self.assertEqual(self.run_plumbline("train", "--spec", str(spec), "--out", "again"), 0, self.done.stdout + self.done.stderr)

    @needs_training
    def test_train_says_what_the_single_device_computes_otherwise(self):
        self.assertEqual(self.run_plumbline("train", "--steps", "3", "--mutant", "col.drop_last_element", "--out", "out"), 1)
        self.assertIn("FAIL  TRAIN-", self.done.stdout)
        self.assertIn("NOT OK", self.done.stdout)

    # Training by names: two batches of 16 in an epoch, on two ranks.
    BY_NAMES = ["train", "--model", "perceptron", "--data", "digits", "--most-digits", "32", "--pipeline", "2", "--batch", "16",
                "--micro-batches", "2", "--warmup-epochs", "1"]

    def train_by_names(self, *arguments, status=0):
        self.assertEqual(self.run_plumbline(*self.BY_NAMES, *arguments), status, self.done.stdout + self.done.stderr)
        lines = self.done.stdout.splitlines()
        return [line[:line.rfind(" (")] for line in lines if line.startswith("epoch ")]  # without the seconds

    def refused_by_names(self, *arguments):
        self.train_by_names(*arguments, status=2)
        self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
        self.assertTrue(self.done.stderr.startswith("plumbline: train: "), self.done.stderr)
        return self.done.stderr

    @needs_training
    def test_train_by_names_goes_on_from_its_checkpoints(self):
        whole = self.train_by_names("--epochs", "3", "--checkpoints", "whole", "--out", "out")
        self.assertEqual(len(whole), 6, "a training and a test of each epoch")
        self.assertIn("backend local: perceptron on digits, 3 epochs, 1 pipeline of 2 ranks, cpu\n", self.done.stdout)
        self.assertIn("rank 0, chunk 0: ", self.done.stdout)
        self.assertIn("\nloss        ", self.done.stdout)
        self.assertRegex(self.done.stdout, r"\naccuracy    [0-9.]+ % of the test's rows; by epoch [0-9.]+ [0-9.]+ [0-9.]+\n")
        record = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        steps = [line for line in record if line["type"] == "step"]
        self.assertEqual([step["step"] for step in steps], [1, 3, 5])
        for step, line in zip(steps, whole[::2]):
            self.assertAlmostEqual(float(line[line.rfind("Loss ") + 5:]), step["loss"], delta=1e-3)

        checkpoints = self.folder / "whole"
        self.assertEqual(sorted(os.listdir(checkpoints)), ["step-4", "step-6"])
        self.assertIn("has checkpoints of a run; resume it", self.refused_by_names("--epochs", "3", "--checkpoints", "whole"))
        for file in (checkpoints / "step-6").iterdir():
            file.unlink()
        rest = self.train_by_names("--epochs", "3", "--checkpoints", "whole", "--resume")
        self.assertIn(f"goes on from '{os.path.realpath(checkpoints)}/step-4'", self.done.stdout)
        self.assertEqual(rest, whole[4:], "the last epoch's numbers as without a stop")
        self.train_by_names("--epochs", "3", "--checkpoints", "whole", "--resume", "--check", status=3)
        self.assertIn("--check: no update was compared", self.done.stderr)
        self.assertNotIn("OK: ", self.done.stdout)
        self.assertIn("it is of another run: NUM_EPOCHS is 3 there and 4 here",
                      self.refused_by_names("--epochs", "4", "--checkpoints", "whole", "--resume"))

    MIXED = ["train", "--model", "pairs", "--tensor", "2", "--pipeline", "2", "--data-parallel", "2", "--precision", "fp16",
             "--steps", "6", "--batch", "24", "--micro-batches", "2", "--loss-scale", "1024", "--growth-interval", "2"]
    OVERFLOWS = ["--overflow-at", "1:0:inf", "--overflow-at", "4:7:nan"]

    @needs_training
    def test_train_in_16_bits_skips_overflows_and_equals_a_single_device(self):
        self.assertEqual(self.run_plumbline(*self.MIXED, *self.OVERFLOWS), 0, self.done.stdout + self.done.stderr)
        self.assertIn("loss scale  1024 to 512; 2 of 6 steps skipped: 1, 4\n", self.done.stdout)
        self.assertIn("skipped     step 1: an overflow\n", self.done.stdout)
        self.assertIn("loss scale  1024 to 512, from step 2 on\n", self.done.stdout)
        self.assertIn("loss scale  512 to 1024, from step 4 on\n", self.done.stdout)
        self.assertIn("OK: the single device computes the same", self.done.stdout)

    @needs_training
    def test_train_under_autocast_clips_and_skips_overflows(self):
        run = ["amp" if word == "fp16" else word for word in self.MIXED]
        self.assertEqual(self.run_plumbline(*run, *self.OVERFLOWS, "--clip-norm", "0.25"), 0, self.done.stdout + self.done.stderr)
        self.assertIn("2 of 6 steps skipped: 1, 4\n", self.done.stdout)
        self.assertIn("\njudged 100 %\n", self.done.stdout)

    @needs_training
    def test_train_that_clips_in_another_way_than_its_specification_leaves_an_old_record(self):
        self.assertEqual(self.run_plumbline("train", "--steps", "2", "--batch", "8", "--data-parallel", "2", "--out", "out"), 0,
                         self.done.stdout + self.done.stderr)
        spec = self.folder / "out" / "run" / "spec.toml"
        spec.write_text(spec.read_text() + "[clip]\nmax_norm = 1\n")
        records = {file: file.read_bytes() for file in (self.folder / "out" / "record").iterdir()}
        self.assertTrue(records)
        run = ["train", "--spec", "out/run/spec.toml", "--record", "out/record"]
        for options, words in ((["--clip-norm", "2"], "clip norm 2; the specification has clip.max_norm = 1"),
                               (["--compression", "int8"], "compression"), (["--static-graph"], "static graph")):
            with self.subTest(options):
                self.assertEqual(self.run_plumbline(*run, *options), 2, self.done.stdout + self.done.stderr)
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertIn(words, self.done.stderr)
                self.assertEqual(records, {file: file.read_bytes() for file in (self.folder / "out" / "record").iterdir()})

    @needs_training
    @needs_mpi
    def test_train_in_16_bits_over_mpi(self):
        self.assertEqual(self.run_plumbline(*self.MIXED, *self.OVERFLOWS, "--backend", "mpi"), 0,
                         self.done.stdout + self.done.stderr)
        self.assertIn("2 of 6 steps skipped: 1, 4\n", self.done.stdout)

    @needs_training
    def test_train_in_16_bits_with_bad_input(self):
        for options, words in (
                (["--precision", "fp8"], "--precision 'fp8'; it must be fp32, fp16, bf16, amp or amp-bf16"),
                (["--overflow-at", "1:0:inf"], "--overflow-at with --precision fp32; only fp16 and amp have a loss scale"),
                (["--precision", "fp16", "--overflow-at", "1:0:big"], "--overflow-at '1:0:big' is not STEP:RANK:KIND"),
                (["--precision", "fp16", "--overflow-at", "150:0:inf"], "--overflow-at '150:0:inf': there is no step 150; the run has 0 to 149"),
                (["--precision", "fp16", "--overflow-at", "1:2:inf"], "--overflow-at '1:2:inf': there is no rank 2; the run has 0 to 1"),
                (["--precision", "fp16", "--loss-scale", "0"], "--loss-scale 0; it must be finite and above 0 in float32"),
                (["--precision", "fp16", "--loss-scale", "1e39"], "--loss-scale 1e+39; it must be finite"),
                (["--precision", "fp16", "--growth-interval", "0"], "--growth-interval"),
                (["--clip-norm", "-1"], "--clip-norm -1; it must be a finite number, at least 0"),
                (["--clip-norm", "inf"], "--clip-norm inf; it must be a finite number, at least 0"),
                (["--static-graph", "--tensor", "2", "--model", "pairs"], "--static-graph with --tensor 2"),
                (["--static-graph", "--pipeline", "2", "--micro-batches", "2"], "--static-graph with --pipeline 2"),
                (["--static-graph", "--precision", "fp16"], "--static-graph with --precision 'float16'"),
                (["--static-graph", "--clip-norm", "1"], "--static-graph with --clip-norm 1"),
                (["--model", "gpt", "--tensor", "2"], "--tensor is of runs by steps; training by names has --data-parallel and --pipeline"),
                (["--tensor", "0"], "--tensor: '0' is not a whole number"),
                (["--precision", "fp16", "--model", "gpt"], "--precision is of runs by steps"),
        ):
            with self.subTest(options):
                self.assertEqual(self.run_plumbline("train", *options), 2, self.done.stdout + self.done.stderr)
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertIn(words, self.done.stderr)

    @needs_training
    def test_train_by_names_with_a_file_that_options_override(self):
        config = self.folder / "config.toml"
        config.write_text("BATCH_SIZE = 16\nNUM_EPOCHS = 2\nNUM_MICRO_BATCHES = 2\nWARMUP_EPOCHS = 1\n"
                          "[parallel]\npipeline = 2\n")
        by_options = self.train_by_names("--epochs", "1")
        run = ["train", "--config", "config.toml", "--model", "perceptron", "--most-digits", "32", "--epochs", "1"]
        self.assertEqual(self.run_plumbline(*run), 0, self.done.stderr)
        by_file = [line[:line.rfind(" (")] for line in self.done.stdout.splitlines() if line.startswith("epoch ")]
        self.assertEqual(by_file, by_options)
        self.assertEqual(self.run_plumbline("train", "--config", "config.toml", "--model", "mlp"), 2)
        self.assertIn("model 'mlp'; it must be resnet50", self.done.stderr)
        config.write_text("BATCH_SIZE = 16\nNUM_MICRO_BATCHES = 2\n[resnet]\nnum_classes = 5\n")
        self.assertEqual(self.run_plumbline("train", "--config", "config.toml", "--model", "resnet50", "--data", "digits"), 2)
        self.assertIn("resnet.num_classes = 5; it must be at least 10, the classes of the data", self.done.stderr)
        config.write_text("BATCHSIZE = 16\n")
        self.assertEqual(self.run_plumbline(*run), 2)
        self.assertIn("config.toml:1:", self.done.stderr)
        self.assertIn("unknown field BATCHSIZE; did you mean BATCH_SIZE?", self.done.stderr)

    @needs_training
    def test_train_by_names_stops_at_a_loss_that_is_no_number(self):
        self.train_by_names("--epochs", "2", "--learning-rate", "1e30", "--out", "out", status=1)
        self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
        self.assertRegex(self.done.stderr,
                         r"the loss is \S+ on rank 1, training step 1 \(epoch 0, batch 1\); no checkpoint was written")
        self.assertNotIn("uncaught", self.done.stderr)

    # What stages send overflows in half precision once the weights have grown, which takes some epochs.
    @needs_training
    def test_train_by_names_keeps_the_checkpoint_before_a_loss_that_is_no_number(self):
        (self.folder / "half.toml").write_text("[fp16]\nmode = 'naive'\n")
        run = ["--most-digits", "16", "--epochs", "8", "--learning-rate", "3", "--warmup-epochs", "5", "--config", "half.toml",
               "--checkpoints", "c"]
        run = [*self.BY_NAMES[:5], *self.BY_NAMES[7:-2], *run]
        self.assertEqual(self.run_plumbline(*run, "--out", "out"), 1, self.done.stdout + self.done.stderr)
        self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
        said = re.search(r"the loss is \S+ on rank 1, .* step (\d) \(epoch \d, batch \d\); the last checkpoint is '.*/c/step-(\d)'",
                         self.done.stderr)
        self.assertIsNotNone(said, self.done.stderr)
        kept = self.folder / "c" / f"step-{said[2]}"
        before = {file.name: file.read_bytes() for file in kept.iterdir()}
        self.assertEqual(sorted(before), ["rank0.safetensors", "rank1.safetensors"])
        self.assertEqual(self.run_plumbline(*run, "--resume"), 1, "it goes on, to the same end")
        self.assertIn(f"/c/step-{said[2]}'\n", self.done.stdout)
        self.assertIn(said[0].split("; ")[0], self.done.stderr)
        self.assertEqual({file.name: file.read_bytes() for file in kept.iterdir()}, before)

    @needs_training
    def test_train_by_names_on_files_that_are_cut_short(self):
        (self.folder / "cifar").mkdir()
        (self.folder / "cifar/data_batch_1.bin").write_bytes(b"\0" * 100)
        run = ["train", "--model", "perceptron", "--data", "cifar", "--epochs", "1", "--out", "out"]
        self.assertEqual(self.run_plumbline(*run), 2, self.done.stderr)
        self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
        self.assertIn("cifar/data_batch_1.bin", self.done.stderr)
        self.assertFalse((self.folder / "out/run.jsonl").exists(), "nothing ran")

    @needs_training
    def test_train_by_names_on_files_that_are_wrong(self):
        folder = self.folder / "cifar"
        folder.mkdir()
        names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
        for name in names:
            (folder / name).write_bytes(b"".join(bytes([row % 10]) + bytes(3072) for row in range(4)))
        run = ["train", "--model", "perceptron", "--data", "cifar", "--epochs", "1", "--batch", "4", "--out", "out"]
        self.assertEqual(self.run_plumbline(*run), 0, self.done.stderr)
        for name, content, words in (("test_batch.bin", b"", "is empty; it must have records of 3073 bytes"),
                                     ("data_batch_3.bin", bytes(3073 * 2 - 1), "has 6145 bytes and ends inside record 1"),
                                     ("data_batch_5.bin", bytes(3073) + b"\x0a" + bytes(3072),
                                      "record 1 (of 2, from 0) has label 10; labels are 0 to 9"),
                                     ("data_batch_2.bin", None, "it is a folder")):
            with self.subTest(name):
                whole = (folder / name).read_bytes()
                (folder / name).unlink()
                (folder / name).mkdir() if content is None else (folder / name).write_bytes(content)
                self.assertEqual(self.run_plumbline(*run), 2, self.done.stderr)
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertIn(f"cifar/{name}'", self.done.stderr)
                self.assertIn(words, self.done.stderr)
                (folder / name).rmdir() if content is None else (folder / name).unlink()
                (folder / name).write_bytes(whole)

    @needs_training
    def test_train_by_names_checked_against_a_single_device(self):
        shape = ("--epochs", "2", "--data-parallel", "2", "--chunks", "2", "--schedule", "zbv", "--check")
        self.train_by_names(*shape, "--device", "emulated:1", "--out", "device")
        self.assertIn("16 of 16 gradients bit for bit", self.done.stdout)
        self.train_by_names(*shape, "--trace", "t.json", "--out", "out")
        self.assertIn("OK: the single device computes the same in 2 updates (requirements: 4 of 4 pass)", self.done.stdout)
        self.assertIn("16 of 16 gradients bit for bit", self.done.stdout)
        self.assertRegex(self.done.stdout, r"memory      rank 0: [0-9.]+ MB, \d+ kept at once; rank 1: ")
        record = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        judged = [line for line in record if line.get("check") == "train.compare"]
        self.assertEqual([line["requirements"] for line in judged], [["PIPE-002"], ["PIPE-003"], ["PIPE-004"], ["PIPE-005"]])
        trace = json.loads((self.folder / "t.json").read_text())["traceEvents"]
        computed = [event for event in trace if event["ph"] == "X"]
        self.assertEqual(sum(event["cat"] == "F" for event in computed), 4 * 2, "4 stages, 2 micro-batches")
        self.assertEqual({event["tid"] for event in computed}, {1, 2})

    @needs_training
    def test_train_by_names_says_what_the_single_device_computes_otherwise(self):
        self.train_by_names("--epochs", "1", "--data-parallel", "2", "--check", "--check-updates", "1", "--mutant",
                            "col.drop_last_element", "--out", "out", status=1)
        self.assertIn("FAIL  gradient: epoch 0, batch 0: the gradient of ", self.done.stdout)
        self.assertIn("NOT OK: the single device computes otherwise in 1 update (", self.done.stdout)

    @needs_training
    def test_train_by_names_on_a_device_that_there_is_not(self):
        self.train_by_names("--device", "cuda:99", status=3)
        self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
        self.assertIn("device 'cuda:99': this ", self.done.stderr)

    @needs_training
    def test_train_by_names_interrupted_goes_on(self):
        run = [*self.BY_NAMES, "--epochs", "2000", "--checkpoints", "c", "--out", "out"]
        process = subprocess.Popen([PLUMBLINE, *run], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("epoch 3, test"):
                break
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, errors)
        self.assertIn("record: out/run.jsonl", said)
        kept = sorted(os.listdir(self.folder / "c"))
        self.assertTrue(any(len(os.listdir(self.folder / "c" / step)) == 2 for step in kept), kept)
        process = subprocess.Popen([PLUMBLINE, *run, "--resume"], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("goes on from '"):
                process.send_signal(signal.SIGINT)
                break
        else:
            self.fail("it began anew")
        process.communicate(timeout=60)

    # As on a disk that is full: files may not be longer than a megabyte, and a rank's checkpoint has five.
    @needs_training
    def test_train_by_names_where_a_checkpoint_cannot_be_written(self):
        whole = self.train_by_names("--epochs", "2", "--checkpoints", "c", "--out", "out")
        for file in (self.folder / "c/step-4").iterdir():
            file.unlink()

        def short_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        run = [PLUMBLINE, *self.BY_NAMES, "--epochs", "2", "--checkpoints", "c", "--out", "out", "--resume"]
        done = subprocess.run(run, cwd=self.folder, capture_output=True, text=True, timeout=60, preexec_fn=short_files)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("c/step-4/rank0.safetensors", done.stderr)
        rest = self.train_by_names("--epochs", "2", "--checkpoints", "c", "--resume")
        self.assertIn("/c/step-2'\n", self.done.stdout, "what was there is still there")
        self.assertEqual(rest, whole[2:])

    @needs_training
    @needs_mpi
    def test_train_by_names_computes_the_same_over_mpi(self):
        local = self.train_by_names("--epochs", "1", "--schedule", "zb-h1")
        self.assertEqual(self.train_by_names("--epochs", "1", "--backend", "mpi"), local)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:], verbosity=1)
