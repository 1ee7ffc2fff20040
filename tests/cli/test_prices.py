"""`amped prices` reads a catalog into a list of the user, and what it writes is what an estimate then takes."""

import json
from pathlib import Path

from tests.helpers.cli import amped, printed

CATALOG = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice
cpu,,0,4,16,0.1,north,,
small,H100,1,16,200,9,north,,5
large,H100,8,128,1600,24,north,"{'Gpus': [{'Name': 'H100', 'Count': 8}]}",10
other,H100,8,128,1600,32,north,,
south,A100,8,128,1600,16,south,,
odd,X9000,8,128,1600,16,south,,
"""
READ = (
    "prices",
    "--from",
    "vms.csv",
    "--cloud",
    "ours",
    "--date",
    "2026-06-30",
    "--output",
    "lookup_tables/prices.csv",
)


def test_a_catalog_becomes_a_list_whose_prices_an_estimate_takes(tmp_path: Path) -> None:
    (tmp_path / "vms.csv").write_text(CATALOG)
    (tmp_path / "lookup_tables").mkdir()
    done = amped(*READ, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no row has these accelerators: X9000" in done.stderr
    lines = (tmp_path / "lookup_tables" / "prices.csv").read_text().splitlines()
    assert lines[1:] == [
        'ours,H100 SXM,north,on_demand,2026-06-30,3,3.5,4,"SkyPilot catalog, ours",',
        'ours,H100 SXM,north,spot,2026-06-30,1.25,1.25,1.25,"SkyPilot catalog, ours",',
        'ours,A100 SXM 40GB,south,on_demand,2026-06-30,2,2,2,"SkyPilot catalog, ours",',
    ]
    told = amped("estimate", "--model", "Llama 3 8B", "--gpus", 16, "--cloud", "ours", "--json", folder=tmp_path)
    assert json.loads(told.stdout)["price_median"] == 3.5


def test_a_catalog_without_provider_or_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vms.csv").write_text("a,b\n1,2\n")
    for words, told in ((READ[:3], "give --cloud NAME"), (READ[:7], "has no column AcceleratorName")):
        done = amped(*words, folder=tmp_path)
        assert done.returncode == 2
        assert told in done.stderr


def test_without_a_catalog_the_known_prices_are_printed() -> None:
    assert "oci,GB200,all,on_demand,2026-06,16,16,16," in printed("prices", "--cloud", "oci")
