"""Tables of other tools as they are: what is read of them, what is left out and why, and damaged lines.

The excerpts are written here in the exact form of nccl-tests 2.17 (and of its predecessors), of aiconfigurator's tables and of
SimuMax's machines. Times are invented: what amped's laws say, times a factor.
"""

import json
from pathlib import Path

import pytest

from amped.base.errors import FileError
from amped.calibration.kernel_errors import kernel_errors, machine
from amped.measured_kernels.found_rows import FileRead
from amped.measured_kernels.kernel_files import read_all
from amped.measured_kernels.kinds import KINDS
from amped.measured_kernels.timed import timed_kernels
from amped.tables.tables import Tables
from tests.helpers.cli import amped, refused

MIB = 2**20
SIZES = [MIB * 2**power for power in range(11)]
HEAD = """# nccl-tests version 2.17.6 nccl-headers=22907 nccl-library=22907
# Collective test starting: {name}_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
{ranks}
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong 
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         
"""  # noqa: W291
TAIL = (
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 220.921 \n#\n# Collective test concluded: {name}_perf\n#\n"
)


def ranks(number: int, hosts: int = 1, device: str = "NVIDIA H100 80GB HBM3") -> str:
    return "\n".join(
        f"#  Rank {rank:2} Group  0 Pid  {31400 + rank} on  node-{rank * hosts // number} device {rank:2} [0000:{rank + 18:02x}:00] {device}"
        for rank in range(number)
    )


def line(size: int, time: float, redop: str = "sum", wrong: str = "0") -> str:
    speed = f"{time:7.2f}  {size / time / 1e3:6.2f}  {size / time / 1e3:6.2f}"
    return f"{size:12}  {size // 4:12}     float  {redop:>6}      -1  {speed}  {wrong:>6}  {speed}  {'N/A':>6}"


def output(name: str, sizes: list[int], time: float, number: int = 8, hosts: int = 1, **how: str) -> str:
    """A run of a test whose collectives take so many microseconds a MiB."""
    rows = "\n".join(line(size, time * size / MIB, **how) for size in sizes)
    return HEAD.format(name=name, ranks=ranks(number, hosts)) + rows + "\n" + TAIL.format(name=name)


def file(folder: Path, text: str, name: str = "log.txt") -> Path:
    (folder / name).write_text(text, "utf-8")
    return folder / name


def only(path: Path) -> FileRead:
    (found,) = read_all(path)
    return found


class TestNcclTests:
    def test_several_runs_of_a_log_are_told_apart(self, tmp_path: Path) -> None:
        names = {"all_reduce": "sum", "all_gather": "none", "reduce_scatter": "sum", "alltoall": "none"}
        text = "\n".join(output(name, SIZES, 5.0 + n, redop=redop) for n, (name, redop) in enumerate(names.items()))
        found = only(file(tmp_path, f"srun: job 7 queued\n{text}"))
        read = {each.library: each for each in found.kernels}
        assert set(read) == {f"{name} 2.29.7" for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")}
        own = read["all_reduce 2.29.7"]
        assert own.accelerator == "H100 80GB HBM3"
        assert own.columns["accelerators"].tolist() == [8] * 10
        assert own.times[0] == pytest.approx(10e-6)
        assert (own.columns["elements"] * 4).tolist() == SIZES[1:]
        assert sorted(found.left.values()) == [4, 44]  # one payload of 1 MiB in each run; 44 times in place
        assert "44 left out: times in place" in str(found)

    def test_the_law_of_collectives_predicts_them(self, tmp_path: Path) -> None:
        of = machine("H100 SXM", "bfloat16", Tables())
        columns = {"collective": ["all_reduce"], "accelerators": [8], "element": ["float"], "elements": [2**28]}
        time = float(KINDS["collectives"].time(columns, of)[0]) * 1e6
        sizes = [2**30 - 2**20 * n for n in range(20)]
        rows = "\n".join(line(size, 2 * time * size / 2**30) for size in sizes)
        (own,) = kernel_errors(only(file(tmp_path, HEAD.format(name="all_reduce", ranks=ranks(8)) + rows)).kernels)
        assert own.scale == pytest.approx(2.0, rel=0.02)

    def test_what_no_law_predicts_is_left_out_with_its_reason(self, tmp_path: Path) -> None:
        text = (
            output("broadcast", [4 * MIB], 5)
            + output("all_reduce", [4 * MIB], 5, number=16, hosts=2)
            + output("all_reduce", [4 * MIB], 5, wrong="3")
            + output("all_reduce", [4 * MIB], 5)
        )
        found = only(file(tmp_path, text))
        assert found.read() == {"collectives": 1}
        assert {why.split(":")[0] for why in found.left} == {
            "broadcast", "between 2 servers", "wrong results", "times in place",
        }  # fmt: skip

    def test_tags_of_launchers_and_other_lines_are_skipped(self, tmp_path: Path) -> None:
        text = output("all_reduce", [4 * MIB, 8 * MIB], 5).splitlines()
        noisy = [f"[1,0]<stdout>:{each}" for each in text]
        noisy.insert(-4, "[1,0]<stdout>:node-0:880:888 [1] NCCL INFO 24 coll channels, 0 collnet channels")
        assert only(file(tmp_path, "\n".join(noisy))).read() == {"collectives": 2}
        assert only(file(tmp_path, "\n".join(f"0: {each}" for each in text))).read() == {"collectives": 2}

    def test_older_tables_are_named_by_their_command_or_file(self, tmp_path: Path) -> None:
        """Before 2.17 the output does not name the collective, and all-to-alls have a blank operator."""
        older = output("alltoall", [4 * MIB], 5, redop="").replace("# Collective test starting: alltoall_perf\n", "")
        older = older.replace("    root", "").replace("      -1", "").partition("# Collective test concluded")[0]
        assert "does not say which collective" in str(refusal(file(tmp_path, older)))
        for path in (
            file(tmp_path, f"$> ./build/alltoall_perf -b 4M\n{older}"),
            file(tmp_path, older, "alltoall_perf.txt"),
        ):
            (own,) = only(path).kernels
            assert own.columns["collective"].tolist() == ["all_to_all"]
            assert own.times.tolist() == [pytest.approx(20e-6)]

    @pytest.mark.parametrize(
        ("before", "after", "told"),
        [
            ("      -1", "", "ends after 12 of 13 columns"),
            ("   20.00  ", "   2O.00  ", "'2O.00' is no number"),
            ("   20.00  ", "   10.00  ", "4194304 bytes in 10 us are not 209.72 GB/s"),
            ("N/A", "", "ends after 12 of 13 columns"),
            ("     4194304 ", "     4194x04 ", "'4194x04' is no number"),
            ("     4194304 ", "     inf ", "'inf' is no number"),
        ],
    )
    def test_a_damaged_line_is_told(self, tmp_path: Path, before: str, after: str, told: str) -> None:
        text = output("all_reduce", [4 * MIB], 5)
        assert before in text
        error = refusal(file(tmp_path, text.replace(before, after)))
        assert (error.problems[0].where, error.problems[0].what) == ("line 18", told)

    def test_the_command_ends_with_the_file_and_the_line(self, tmp_path: Path) -> None:
        path = file(tmp_path, output("all_reduce", [4 * MIB], 5).replace("   20.00  ", "   ??.??  "))
        for verb in (["validate"], ["calibrate", "--dry-run"]):
            code, said = refused(*verb, "--kernels", path)
            assert code == 2
            assert f"{path}:" in said
            assert "line 18: '??.??' is no number" in said


def refusal(path: Path) -> FileError:
    with pytest.raises(FileError) as caught:
        read_all(path)
    return caught.value


ABOUT = "framework,version,device,op_name,kernel_source"
GEMM = f"{ABOUT},gemm_dtype,m,n,k,latency"
ATTENTION = f"{ABOUT},batch_size,isl,num_heads,num_key_value_heads,head_dim,window_size,beam_width,attn_dtype,kv_cache_dtype,step,latency"
MLA = f"{ABOUT},mla_dtype,kv_cache_dtype,num_heads,batch_size,isl,tp_size,step,latency"
MOE = (
    f"{ABOUT},moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,distribution,latency"
)
NCCL = f"{ABOUT},nccl_dtype,num_gpus,message_size,latency"
HOPPER = "TRTLLM,1.3.0rc10,NVIDIA H100 80GB HBM3"


class TestAiconfigurator:
    def test_products_become_amped_s(self, tmp_path: Path) -> None:
        text = f"{GEMM}\n{HOPPER},gemm,torch_flow,bfloat16,4096,8192,512,0.125\n{HOPPER},gemm,torch_flow,fp8_block,4096,8192,512,0.08\n"
        found = only(file(tmp_path, text, "gemm_perf.txt"))
        wide, narrow = found.kernels
        assert (wide.kind, wide.library, wide.precision) == (
            KINDS["products"],
            "TRTLLM 1.3.0rc10 torch_flow",
            "bfloat16",
        )
        assert (narrow.precision, narrow.times[0]) == ("fp8_block", pytest.approx(80e-6))
        assert [int(wide.columns[side][0]) for side in "mnk"] == [4096, 8192, 512]
        assert (str(found), dict(found.left)) == (f"{tmp_path}/gemm_perf.txt: aiconfigurator: 2 products read", {})

    def test_every_kind_of_table_is_read(self, tmp_path: Path) -> None:
        lines = {
            "context_attention_perf.txt": f"{ATTENTION}\n{HOPPER},context_attention,fa3,1,4096,32,8,128,0,1,bfloat16,bfloat16,0,1.5",
            "context_mla_perf.txt": f"{MLA}\n{HOPPER},context_mla,default,bfloat16,bfloat16,64,1,4096,2,0,2.5",
            "moe_perf.txt": f"{MOE}\n{HOPPER},moe,moe_torch_flow,fp8,4096,2048,768,8,128,1,1,power_law_1.2,0.9",
            "nccl_perf.txt": f"{NCCL}\nTRTLLM,2.27.3,NVIDIA H100 80GB HBM3,alltoall,NCCL,half,8,4194304,0.06",
        }
        for name, text in lines.items():
            file(tmp_path, text, name)
        found = {kind: number for each in read_all(tmp_path) for kind, number in each.read().items()}
        assert found == {"attention_forward": 1, "latent_attention_forward": 1, "experts_forward": 1, "collectives": 1}
        kernels = {kind: own for each in read_all(tmp_path) for kind in each.read() for own in each.kernels}
        assert kernels["collectives"].library == "alltoall 2.27.3"
        assert all(error.reason.startswith("too few rows") for error in kernel_errors(list(kernels.values())))

    def test_parquet_says_the_same_as_text(self, tmp_path: Path) -> None:
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        cells = dict(
            zip(
                GEMM.split(","),
                [*HOPPER.split(","), "gemm", "torch_flow", "bfloat16", 4096, 8192, 512, 0.125],
                strict=True,
            )
        )
        parquet.write_table(pa.Table.from_pylist([cells, cells | {"m": 8}]), tmp_path / "gemm_perf.parquet")
        found = only(tmp_path / "gemm_perf.parquet")
        assert found.kernels[0].times.tolist() == [pytest.approx(125e-6)]
        assert list(found.left) == ["a shape of inference: amped's laws are for training (m below 256)"]
        parquet.write_table(pa.Table.from_pylist([cells, cells | {"n": 0}]), tmp_path / "gemm_perf.parquet")
        assert refusal(tmp_path / "gemm_perf.parquet").problems[0].where == "row 2"

    def test_what_no_law_predicts_is_left_out_with_its_reason(self, tmp_path: Path) -> None:
        head = f"{ABOUT},batch_size,isl,num_heads,num_key_value_heads,head_dim,beam_width,attn_dtype,kv_cache_dtype,step,latency"
        rows = [
            f"{HOPPER},context_attention,a,1,4096,32,8,128,1,bfloat16,bfloat16,0,1.5",
            f"{HOPPER},context_attention,a,1,4096,32,8,128,1,bfloat16,bfloat16,2048,1.5",
            f"{HOPPER},context_attention,a,1,64,32,8,128,1,bfloat16,bfloat16,0,1.5",
            f"{HOPPER},generation_attention,a,1,4096,32,8,128,1,bfloat16,bfloat16,0,1.5",
            f"{HOPPER},context_attention,a,1,4096,32,8,128,1,int4,bfloat16,0,1.5",
        ]
        found = only(file(tmp_path, "\n".join([head, *rows])))
        inference = "a shape of inference: amped's laws are for training"
        assert found.left == {inference: 2, f"{inference} (tokens below 1024)": 1, "the format int4": 1}
        other = f"{ABOUT},quant_type,num_tokens,latency\n{HOPPER},mhc_module,a,bf16,64,0.5\n"
        assert "mhc_module: amped has no law of this kernel" in str(refusal(file(tmp_path, other)))

    @pytest.mark.parametrize(
        ("row", "told"),
        [
            (f"{HOPPER},gemm,a,bfloat16,4096,8192", "line 2: has 8 of 10 columns"),
            (f"{HOPPER},gemm,a,bfloat16,4096,8192,x,0.1", "line 2: column 'k': 'x' is no whole number"),
            (f"{HOPPER},gemm,a,bfloat16,4096,8192,0.5,0.1", "line 2: column 'k': '0.5' is no whole number"),
            (f"{HOPPER},gemm,a,bfloat16,4096,8192,512,nan", "line 2: column 'latency': 'nan' is no number above 0"),
            (f"{HOPPER},gemm,a,bfloat16,4096,8192,512,-1", "line 2: column 'latency': '-1' is no number above 0"),
        ],
    )
    def test_a_damaged_line_is_told(self, tmp_path: Path, row: str, told: str) -> None:
        code, said = refused("validate", "--kernels", file(tmp_path, f"{GEMM}\n{row}\n"))
        assert (code, told in said) == (2, True), said

    def test_a_file_that_git_did_not_fetch_is_told(self, tmp_path: Path) -> None:
        text = "version https://git-lfs.github.com/spec/v1\noid sha256:2a\nsize 69303\n"
        assert "git lfs pull" in str(refusal(file(tmp_path, text, "nccl_perf.txt")))


def simumax(**operators: object) -> str:
    own = {"default": {"tflops": 312, "efficient_factor": 0.75}, **operators}
    return json.dumps({"sys_name": "a100_pcie_bf16", "num_per_node": 8, "accelerator": {"backend": "cuda", "op": own, "bandwidth": {}}, "networks": {}})  # fmt: skip


def operator(**shapes: object) -> dict[str, object]:
    return {"tflops": 312, "efficient_factor": 0.75, "accurate_efficient_factor": shapes}


PRODUCT = "b=1, m=4096, k=5120, n=1536, layout={}, accumulate={}, out_dtype={}"
HEADS = "batch=1, seq_len=4096, head_num=32, kv_head_num=8, qk_head_dim=128, v_head_dim=128, qkv_contiguous=True"
GROUPED = "ng=40, M=616, N=3072, K=5120, stage=fwd, grad=False, accumulate=False, use_split_accumulator=False, single_output=True"


class TestSimuMax:
    def test_shapes_become_amped_s(self, tmp_path: Path) -> None:
        text = simumax(
            matmul=operator(**{PRODUCT.format("TN", False, "bf16"): 0.8, PRODUCT.format("NT", True, "fp32"): 0.6}),
            sdp_fwd=operator(**{HEADS: 1.1}), sdp_bwd=operator(**{HEADS: 0.9}), group_matmul=operator(**{GROUPED: 0.7}),
            fp8_matmul=operator(**{PRODUCT.format("TN", False, "bf16"): 0.5}),
        )  # fmt: skip
        found = only(file(tmp_path, text, "a100_pcie.json"))
        assert found.read() == {
            "products_with_layout": 2, "attention_forward_of_peak": 1, "attention_backward_of_peak": 1, "grouped_products": 1,
        }  # fmt: skip
        assert {each.accelerator for each in found.kernels} == {"A100 PCIe 80GB"}
        (products,) = (each for each in found.kernels if "layout" in each.columns)
        assert products.times[0] == pytest.approx(2 * 4096 * 5120 * 1536 / (0.8 * 312e12))
        assert [why.split(":")[0] for why in found.left] == [
            "fp8_matmul", "operators with one share of the peak for all shapes", "section 'bandwidth'", "section 'networks'",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("shape", "share", "told"),
        [
            ("b=1, m=4096, k=5120, layout=TN, accumulate=False, out_dtype=bf16", 0.8, "has no n"),
            ("b=1, m=4096; k=5120", 0.8, "is no shape like"),
            ("b=1, m=0, k=5120, n=1536, layout=TN, accumulate=False, out_dtype=bf16", 0.8, "is no shape like"),
            (PRODUCT.format("TN", False, "bf16"), "0.8", "'0.8' is no number above 0"),
            (PRODUCT.format("TN", False, "bf16"), -0.8, "-0.8 is no number above 0"),
        ],
    )
    def test_a_damaged_shape_is_told_by_its_path(self, tmp_path: Path, shape: str, share: object, told: str) -> None:
        error = refusal(file(tmp_path, simumax(matmul=operator(**{shape: share})), "machine.json"))
        assert told in error.problems[0].what
        assert error.problems[0].where == f"/accelerator/op/matmul/accurate_efficient_factor/{shape}"


def test_a_folder_has_files_of_several_tools_and_others_are_told(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    file(tmp_path / "deep", output("all_reduce", [4 * MIB], 5), "all_reduce.log")
    file(tmp_path, f"{GEMM}\n{HOPPER},gemm,a,bfloat16,4096,8192,512,0.1\n", "gemm_perf.txt")
    file(tmp_path, simumax(sdp_fwd=operator(**{HEADS: 1.1})), "a100.json")
    file(tmp_path, "what a day", "notes.txt")
    done = amped("validate", "--kernels", tmp_path, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    told = {Path(each["file"]).name: each for each in json.loads(done.stdout)["files"]}
    assert {name: each["tool"] for name, each in told.items()} == {
        "all_reduce.log": "nccl-tests", "gemm_perf.txt": "aiconfigurator", "a100.json": "SimuMax", "notes.txt": "not read",
    }  # fmt: skip
    assert told["notes.txt"]["left_out"] == {"is of no form that amped reads": 1}
    assert "notes.txt: not read" in done.stderr


@pytest.mark.thorough
def test_coefficients_are_fitted_to_another_tool_s_table(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    of, rows = machine("H100 SXM", "bfloat16", Tables()), []
    for m in (256, 512, 1024, 2048, 4096, 8192, 16384):
        for n in (1024, 2048, 4096, 8192, 16384, 32768):
            columns = {"software": ["a"], "precision": ["bfloat16"], "m": [m], "n": [n], "k": [4096]}
            time = float(KINDS["products"].time(columns, of)[0])
            rows.append(f"{HOPPER},gemm,a,bfloat16,{m},{n},4096,{time * 1.1e3!r}")
    path = file(tmp_path, "\n".join([GEMM, *rows]), "gemm_perf.txt")
    done = amped("calibrate", "--kernels", path, "--accelerator", "H100 SXM", "--dry-run", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["read"] for each in found["files"]] == [{"products": 42}]
    assert found["kernels"][0]["error_kept_out"] < 0.05
    assert "gemm_perf.txt: aiconfigurator: 42 products read" in done.stderr


def test_an_estimate_takes_times_from_another_tool_s_table(tmp_path: Path) -> None:
    text = f"{GEMM}\n{HOPPER},gemm,torch_flow,bfloat16,4096,8192,512,0.125\n"
    (own,) = timed_kernels(file(tmp_path, text, "gemm_perf.txt"), lambda name: name == "H100 80GB HBM3")
    assert (own.precision, own.time.tolist()) == ("bf16", [pytest.approx(125e-6)])
    (same,) = timed_kernels(tmp_path, lambda name: name == "H100 80GB HBM3")
    assert same.time.tolist() == own.time.tolist()
