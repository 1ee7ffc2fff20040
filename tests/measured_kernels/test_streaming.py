"""Norms of cuDNN's benchmark, casts, and attention without a mask."""

from pathlib import Path

import pytest

from amped.base.errors import FileError
from amped.calibration.kernel_errors import machine, predicted
from amped.measured_kernels.kernel_files import read_all
from amped.tables.tables import user_tables

HEADS = "config_name,norm_name,norm_type,backend,data_type,N,C,epsilon,has_bias,profile_pass,fwd_time_ms,bwd_time_ms,success,error_message,gpu_name"  # fmt: skip
# Facts of NVIDIA/cudnn-frontend, benchmark/norms.
LINES = [
    "all,llama3-8b,rms_norm,cudnn,bfloat16,16384,4096,0.0,False,both,0.072,0.106,True,,NVIDIA H200",
    "all,llama3-70b,rms_norm,cudnn,bfloat16,8192,8192,0.0,False,both,0.071,0.114,True,,NVIDIA H200",
    'all,qwen,rms_norm,pytorch,bfloat16,131072,128,0.0,False,both,0.0,0.0,False,"a\nb",',
]


def norms(tmp_path: Path, lines: list[str]) -> Path:
    path = tmp_path / "norms.csv"
    path.write_text("\n".join([HEADS, *lines]) + "\n", "utf-8")
    return path


def test_norms_are_read_in_both_passes_and_their_times_are_near_the_law(tmp_path: Path) -> None:
    (file,) = read_all(norms(tmp_path, LINES))
    assert (file.read(), dict(file.left)) == ({"norms": 4}, {"the kernel did not run": 2})
    for k in file.kernels:
        law = predicted(k, machine(k.accelerator, k.precision, user_tables(None))).law
        assert law == pytest.approx(k.times, rel=0.25)


def test_a_time_that_is_no_number_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"line 2.*fwd_time_ms"):
        read_all(norms(tmp_path, [LINES[0].replace("0.072", "none")]))


TABLES = {
    "encoder_attention_forward": (
        "framework,version,device,op_name,kernel_source,batch_size,isl,num_heads,head_dim,attn_dtype,latency",
        ["SGLang,0.5.14,NVIDIA H100 80GB HBM3,encoder_attention,flash_attention_v3,8,4096,16,80,bfloat16,1.55867",
         "SGLang,0.5.14,NVIDIA H100 80GB HBM3,encoder_attention,flash_attention_v3,8,13,16,80,bfloat16,0.01707"],
    ),
    "casts": (
        "framework,version,device,op_name,kernel_source,m,k,quant_dtype,latency",
        ["VLLM,0.24.0,NVIDIA H100 80GB HBM3,scale_matrix,static_scaled_fp8_quant,32768,16384,fp8,0.524426",
         "VLLM,0.24.0,NVIDIA H100 80GB HBM3,scale_matrix,static_scaled_fp8_quant,8,16384,fp8,0.003234"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_towers_and_casts_are_near_the_law(kind: str, tmp_path: Path) -> None:
    heads, lines = TABLES[kind]
    (tmp_path / "table.txt").write_text("\n".join([heads, *lines]), "utf-8")
    (file,) = read_all(tmp_path / "table.txt")
    assert (file.read(), sum(file.left.values())) == ({kind: 1}, 1)
    (k,) = file.kernels
    law = predicted(k, machine(k.accelerator, k.precision, user_tables(None))).law
    assert law == pytest.approx(k.times, rel=0.25)
