"""What PyTorch does of the rows of the GPU bench: run it in the same call as the bench.

usage: gpu_peers.py      needs torch with CUDA

Data on the device, device events, warm, median of 11: integral volumes by three cumulative sums, a node of 40 Haar features of 18 taps as
weighted slices of a padded table, posed samples by grid_sample, the best 1000 of many scores. The peers' formulas only: their numbers are not
compared with ours here.
"""

import torch

WARM_UP, REPEATS = 3, 11


def median_ms(action):
    times = []
    for _ in range(WARM_UP + REPEATS):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        action()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times[WARM_UP:])[REPEATS // 2]


def row(name, action):
    print(f"{name:<66} {median_ms(action):>9.3f} ms", flush=True)


def cumulative_sums(n):
    volume = torch.randint(0, 4096, (n, n, n), dtype=torch.int32, device="cuda")
    sums = lambda: volume.cumsum(2, dtype=torch.int32).cumsum(1, dtype=torch.int32).cumsum(0, dtype=torch.int32)
    row(f"torch.cumsum x3, {n}^3, 32 bits", sums)


def node(n, radius, weaks=40, taps=18):
    table = torch.randint(-(2**31), 2**31 - 1, (n + 2 * radius + 1,) * 3, dtype=torch.int32, device="cuda")
    generator = torch.Generator().manual_seed(1)
    offsets = torch.randint(0, 2 * radius + 2, (weaks, taps, 3), generator=generator).tolist()
    margin = torch.empty((n, n, n), dtype=torch.int32, device="cuda")

    def evaluate():
        margin.zero_()
        for feature in offsets:
            response = torch.zeros_like(margin)
            for t, (x, y, z) in enumerate(feature):
                response.add_(table[z : z + n, y : y + n, x : x + n], alpha=1 if t % 2 else -1)
            margin.add_((response >= 0).int(), alpha=20_000)

    row(f"torch slices, node of {weaks} weak, {taps} taps, radius {radius}, {n}^3", evaluate)


def samples(n, poses, points, local):
    channels = torch.randn((1, 4, n, n, n), device="cuda")
    at = torch.rand((poses, 1, 3), device="cuda") * 1.25 - 0.625
    spread = torch.rand((poses, points, 3), device="cuda") * 0.4 - 0.2
    grid = (at + spread if local else torch.rand_like(spread) * 2 - 1).view(1, poses, points, 1, 3)
    sample = torch.nn.functional.grid_sample
    row(
        f"torch grid_sample, {poses} poses x {points} points, 4 channels{', near each other' if local else ''}",
        lambda: sample(channels, grid, padding_mode="border", align_corners=True),
    )


def best(n, k=1000):
    scores = torch.randint(-(2**62), 2**62, (n**3,), device="cuda")
    row(f"torch.topk, {k} of {n}^3, 64 bits", lambda: torch.topk(scores, k))
    scores = scores.float()
    row(f"torch.topk, {k} of {n}^3, 32 bits", lambda: torch.topk(scores, k))


def main():
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name(0)}")
    for n in (256, 512):
        cumulative_sums(n)
        best(n)
    node(256, 6)
    for local in (False, True):
        samples(256, 1 << 20, 40, local)


if __name__ == "__main__":
    main()
