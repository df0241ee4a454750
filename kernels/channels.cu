// The channels of a level; the twin of `pbt_features::ChannelVolume`.

#include "constants.cuh"

// Intensity and twice the central differences of a level, shifted to one scale by so many bits along each
// axis, with a border of `border` voxels of zero intensity whose outermost layer has no gradient.
extern "C" __global__ void channels_make(
    const u16 *voxels, int nx, int ny, int nz, int border, int bits_x, int bits_y, int bits_z,
    short4 *channels
) {
    int px = nx + 2 * border, py = ny + 2 * border, pz = nz + 2 * border;
    u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= (u64)px * py * pz) return;
    int x = n % px, y = n / px % py, z = n / ((u64)px * py);
    auto at = [=](int x, int y, int z) {
        int i = min(max(x, 0), px - 1) - border, j = min(max(y, 0), py - 1) - border,
            k = min(max(z, 0), pz - 1) - border;
        bool inside = i >= 0 && i < nx && j >= 0 && j < ny && k >= 0 && k < nz;
        return inside ? (int)voxels[((u64)k * ny + j) * nx + i] : 0;
    };
    auto difference = [](int a, int b, int bits) {
        return (short)min(max((a - b + ((1 << bits) >> 1)) >> bits, -32768), 32767);
    };
    short4 to = make_short4((short)at(x, y, z), 0, 0, 0);
    bool outermost =
        border && (x == 0 || x == px - 1 || y == 0 || y == py - 1 || z == 0 || z == pz - 1);
    if (!outermost) {
        to.y = difference(at(x + 1, y, z), at(x - 1, y, z), bits_x);
        to.z = difference(at(x, y + 1, z), at(x, y - 1, z), bits_y);
        to.w = difference(at(x, y, z + 1), at(x, y, z - 1), bits_z);
    }
    channels[n] = to;
}
