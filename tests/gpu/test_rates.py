"""The device's rates, for the emulated GPU's timing model; scripts/calibrate makes its data file of them."""

from __future__ import annotations

from tests.gpu.device import Device, data


def test_the_rates_of_the_device_are_measured(device: Device, fact) -> None:
    rates = data(device.program("rates", device.size).finishes(), "rates")
    for name, value in rates.items():
        assert value > 0
        fact(f"rate {name}", float(f"{value:.4g}"), "us" if name.endswith("_us") and "per" not in name else "per us")
