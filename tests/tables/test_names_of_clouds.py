"""Names that drivers print and that clouds give their instances find their row, with `--accelerator` and `--system`."""

import pytest

import amped
from amped.tables.table_files import ACCELERATORS, SYSTEMS
from amped.tables.tables import Tables

# What nvidia-smi prints as the name of a product, and rocm-smi as the series of a card; some with hl-smi and JAX.
PRINTED = {
    "Tesla P4": "P4", "Tesla P100-SXM2-16GB": "P100", "Tesla P100-PCIE-16GB": "P100 PCIe",
    "Tesla V100-SXM2-16GB": "V100 SXM2 16GB", "Tesla V100-SXM2-32GB": "V100 SXM2 32GB",
    "Tesla V100-SXM3-32GB": "V100 SXM2 32GB", "Tesla V100-PCIE-16GB": "V100 PCIe",
    "Tesla V100-PCIE-32GB": "V100 PCIe 32GB", "Tesla V100S-PCIE-32GB": "V100S PCIe 32GB", "Tesla T4": "T4",
    "NVIDIA GeForce RTX 2080 Ti": "RTX 2080 Ti", "NVIDIA A100-PCIE-40GB": "A100 PCIe 40GB",
    "NVIDIA A100 80GB PCIe": "A100 PCIe 80GB", "NVIDIA A100-SXM4-40GB": "A100 SXM 40GB",
    "NVIDIA A100-SXM4-80GB": "A100 SXM 80GB", "A100-SXM-80GB": "A100 SXM 80GB", "NVIDIA A800-SXM4-80GB": "A800",
    "NVIDIA A30": "A30", "NVIDIA A10": "A10", "NVIDIA A40": "A40", "NVIDIA RTX A6000": "RTX A6000",
    "NVIDIA GeForce RTX 3090": "RTX 3090", "NVIDIA L4": "L4", "NVIDIA L40": "L40", "NVIDIA L40S": "L40S",
    "NVIDIA RTX 6000 Ada Generation": "RTX 6000 Ada", "NVIDIA GeForce RTX 4090": "RTX 4090",
    "NVIDIA H100 PCIe": "H100 PCIe", "NVIDIA H100 80GB HBM3": "H100 SXM", "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA H800": "H800 SXM", "NVIDIA H20": "H20", "NVIDIA H200": "H200 SXM", "NVIDIA GH200 480GB": "GH200",
    "NVIDIA GH200 144G HBM3e": "GH200 144GB", "NVIDIA B100": "B100", "NVIDIA B200": "B200 SXM", "NVIDIA GB200": "GB200",
    "NVIDIA B300 SXM6 AC": "B300", "NVIDIA GB300": "GB300", "NVIDIA GeForce RTX 5090": "RTX 5090",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX PRO 6000 Blackwell Server",
    "AMD Instinct MI100": "MI100", "AMD Instinct MI210": "MI210", "AMD Instinct MI250": "MI250",
    "AMD INSTINCT MI250X": "MI250X", "AMD Instinct MI250X / MI250": "MI250X", "AMD Instinct MI300A": "MI300A",
    "AMD Instinct MI300X": "MI300X", "AMD Instinct MI300X OAM": "MI300X", "AMD Instinct MI325X": "MI325X",
    "AMD Instinct MI350X": "MI350X", "AMD Instinct MI355X": "MI355X",
    "NVIDIA L20": "L20", "NVIDIA A10G": "A10G", "NVIDIA H200 NVL": "H200 NVL", "NVIDIA B300": "B300",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "RTX PRO 6000 Blackwell Workstation",
    "AMD Instinct MI308X": "MI308X", "AMD Instinct MI440X": "MI440X", "AMD Instinct MI430X": "MI430X",
    "NVIDIA GB10": "GB10", "Intel Arc Pro B60": "Arc Pro B60", "AMD Instinct MI455X": "MI455X", "HL-225": "Gaudi 2", "HL-325L": "Gaudi 3", "TPU v5 lite": "TPU v5e", "TPU v6 lite": "TPU v6e Trillium",
}  # fmt: skip

# The accelerator of instances, and how many of them share its fastest network's node in the table.
INSTANCES = {
    "AWS": {
        "p3.16xlarge": ("V100 SXM2 16GB", 8), "p3dn.24xlarge": ("V100 SXM2 32GB", 8), "p4d.24xlarge": ("A100 SXM 40GB", 8),
        "p4de.24xlarge": ("A100 SXM 80GB", 8), "p5.48xlarge": ("H100 SXM", 8), "p5e.48xlarge": ("H200 SXM", 8),
        "p5en.48xlarge": ("H200 SXM", 8), "p6-b200.48xlarge": ("B200 SXM", 8), "g6.48xlarge": ("L4", 8),
        "g6e.48xlarge": ("L40S", 8), "trn1.32xlarge": ("Trainium 1", 16), "trn1n.32xlarge": ("Trainium 1", 16),
        "trn2.48xlarge": ("Trainium 2", 16), "p6-b300.48xlarge": ("B300", 8), "u-p6e-gb200x72": ("GB200", 72),
        "g4dn.metal": ("T4", 8), "g5.48xlarge": ("A10G", 8), "dl1.24xlarge": ("Gaudi 1", 8),
        "u-p6e-gb200x36": ("GB200", 36), "u-p6e-gb300x72": ("GB300", 72), "u-p6e-gb300x36": ("GB300", 36),
    },
    "Google Cloud": {
        "a2-highgpu-8g": ("A100 SXM 40GB", 8), "a2-ultragpu-8g": ("A100 SXM 80GB", 8), "a3-highgpu-8g": ("H100 SXM", 8),
        "a3-megagpu-8g": ("H100 SXM", 8), "a3-ultragpu-8g": ("H200 SXM", 8), "a4-highgpu-8g": ("B200 SXM", 8),
        "a4x-highgpu-4g": ("GB200", 72), "a4x-maxgpu-4g-metal": ("GB300", 72), "g2-standard-96": ("L4", 8),
        "g4-standard-384": ("RTX PRO 6000 Blackwell Server", 8),
        "v2-8": ("TPU v2", 4), "v3-8": ("TPU v3", 4), "ct4p-hightpu-4t": ("TPU v4", 4), "ct5lp-hightpu-4t": ("TPU v5e", 8),
        "ct5lp-hightpu-8t": ("TPU v5e", 8), "ct5l-hightpu-8t": ("TPU v5e", 8), "ct5p-hightpu-4t": ("TPU v5p", 4),
        "ct6e-standard-4t": ("TPU v6e Trillium", 8), "ct6e-standard-8t": ("TPU v6e Trillium", 8),
        "tpu7x-standard-4t": ("TPU v7 Ironwood", 4),
    },
    "Azure": {
        "Standard_ND40rs_v2": ("V100 SXM2 32GB", 8), "Standard_ND96asr_v4": ("A100 SXM 40GB", 8),
        "Standard_ND96amsr_A100_v4": ("A100 SXM 80GB", 8), "Standard_ND96isr_H100_v5": ("H100 SXM", 8),
        "Standard_ND96isr_H200_v5": ("H200 SXM", 8), "Standard_ND96isr_MI300X_v5": ("MI300X", 8),
        "Standard_NC96ads_A100_v4": ("A100 PCIe 80GB", 4), "Standard_NC80adis_H100_v5": ("H100 NVL", 2),
        "Standard_NC64as_T4_v3": ("T4", 4), "Standard_ND128isr_NDR_GB200_v6": ("GB200", 72), "Standard_ND128isr_GB300_v6": ("GB300", 72),
    },
    "OCI": {
        "BM.GPU4.8": ("A100 SXM 40GB", 8), "BM.GPU.A100-v2.8": ("A100 SXM 80GB", 8), "BM.GPU.H100.8": ("H100 SXM", 8),
        "BM.GPU.H200.8": ("H200 SXM", 8), "BM.GPU.B200.8": ("B200 SXM", 8), "BM.GPU.B300.8": ("B300", 8),
        "BM.GPU.GB200.4": ("GB200", 72), "BM.GPU.GB300.4": ("GB300", 72), "BM.GPU.MI300X.8": ("MI300X", 8),
        "BM.GPU.MI355X.8": ("MI355X", 8), "BM.GPU.A10.4": ("A10", 4), "BM.GPU.L40S.4": ("L40S", 4),
    },
}  # fmt: skip
# Clouds that say the accelerator alone: `--system` takes a system that is built with it, and says so.
ACCELERATOR_OF_INSTANCE = {
    "Lambda": {
        "gpu_8x_v100": "V100 SXM2 16GB", "gpu_8x_a100": "A100 SXM 40GB", "gpu_8x_a100_80gb_sxm4": "A100 SXM 80GB",
        "gpu_8x_h100_sxm5": "H100 SXM", "gpu_8x_b200_sxm6": "B200 SXM", "gpu_1x_gh200": "GH200",
    },
    "Nebius": {
        "gpu-h100-sxm": "H100 SXM", "gpu-h100-sxm_8gpu": "H100 SXM", "gpu-h200-sxm": "H200 SXM",
        "gpu-b200-sxm": "B200 SXM", "gpu-b300-sxm": "B300", "gpu-l40s-d": "L40S",
    },
    "CoreWeave": {
        "gd-8xa100-i128": "A100 SXM 80GB", "gd-8xh100ib-i128": "H100 SXM", "gd-8xh200ib-i128": "H200 SXM", "b200-8x": "B200 SXM",
        "b300-8x": "B300", "gb200-4x": "GB200", "gb300-4x": "GB300", "gd-8xl40s-i128": "L40S",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PRINTED)
def test_what_a_driver_prints_is_an_accelerator(name):
    assert Tables().row(ACCELERATORS, name).name == PRINTED[name]


def test_the_list_of_what_drivers_print_has_every_accelerator_of_their_makers():
    """Without the rows of a board that a measurement describes, and VR200, whose driver nobody has shown yet."""
    tables = Tables()
    rows = [tables.row(ACCELERATORS, name) for name in tables.names(ACCELERATORS)]
    own = {row.name for row in rows if row.column("vendor") in ("NVIDIA", "AMD") and "extends" not in row.columns}
    assert own - set(PRINTED.values()) == {"VR200"}


@pytest.mark.parametrize(("cloud", "name"), [(cloud, name) for cloud, names in INSTANCES.items() for name in names])
def test_an_instance_is_a_system_with_its_accelerators(cloud, name):
    row = Tables().row(SYSTEMS, name)
    assert (row.column("accelerator"), row.column("number_of_accelerators_per_node")) == INSTANCES[cloud][name]


@pytest.mark.parametrize(
    ("cloud", "name"), [(cloud, name) for cloud, names in ACCELERATOR_OF_INSTANCE.items() for name in names]
)
def test_an_instance_of_an_accelerator_finds_a_system_that_is_built_with_it(cloud, name):
    tables, accelerator = Tables(), ACCELERATOR_OF_INSTANCE[cloud][name]
    assert tables.row(ACCELERATORS, name).name == accelerator
    assert tables.row(SYSTEMS, tables.meant(SYSTEMS, name)).column("accelerator") == accelerator


def test_sixty_names_of_five_clouds_and_more_are_known():
    clouds = INSTANCES | ACCELERATOR_OF_INSTANCE
    assert len(clouds) >= 5
    assert sum(map(len, clouds.values())) >= 60


def test_a_name_of_a_driver_and_one_of_a_cloud_estimate_what_the_rows_do():
    named = amped.estimate(model="Llama 3 8B", system="p5e.48xlarge", accelerator="NVIDIA H200", gpus=16)
    rows = amped.estimate(model="Llama 3 8B", system="AWS p5e", accelerator="H200 SXM", gpus=16)
    assert named["step_time"] == rows["step_time"]
