/* SPDX-License-Identifier: MIT */
#include "sim/properties.h"

#include <stdio.h>
#include <string.h>

#include "sim/sim.h"

/* Which attribute fills which field. */
struct field {
	uint16_t offset;
	uint8_t width;
	uint8_t attribute;
};

#define FIELD(layout, member, attribute)                                                                             \
	{                                                                                                            \
		offsetof(struct layout, member), sizeof(((struct layout *)0)->member), attribute                     \
	}

/* clang-format off */
#define COMMON_FIELDS(layout) \
	FIELD(layout, shared_mem_per_block, 8), \
	FIELD(layout, regs_per_block, 12), \
	FIELD(layout, warp_size, 10), \
	FIELD(layout, mem_pitch, 11), \
	FIELD(layout, max_threads_per_block, 1), \
	FIELD(layout, total_const_mem, 9), \
	FIELD(layout, major, 75), \
	FIELD(layout, minor, 76), \
	FIELD(layout, texture_alignment, 14), \
	FIELD(layout, texture_pitch_alignment, 51), \
	FIELD(layout, multi_processor_count, 16), \
	FIELD(layout, integrated, 18), \
	FIELD(layout, can_map_host_memory, 19), \
	FIELD(layout, max_texture_1d, 21), \
	FIELD(layout, max_texture_1d_mipmap, 77), \
	FIELD(layout, max_texture_cubemap, 52), \
	FIELD(layout, max_surface_1d, 55), \
	FIELD(layout, max_surface_cubemap, 66), \
	FIELD(layout, surface_alignment, 30), \
	FIELD(layout, concurrent_kernels, 31), \
	FIELD(layout, ecc_enabled, 32), \
	FIELD(layout, pci_bus_id, 33), \
	FIELD(layout, pci_device_id, 34), \
	FIELD(layout, pci_domain_id, 50), \
	FIELD(layout, tcc_driver, 35), \
	FIELD(layout, async_engine_count, 40), \
	FIELD(layout, unified_addressing, 41), \
	FIELD(layout, memory_bus_width, 37), \
	FIELD(layout, l2_cache_size, 38), \
	FIELD(layout, persisting_l2_cache_max_size, 108), \
	FIELD(layout, max_threads_per_multi_processor, 39), \
	FIELD(layout, stream_priorities_supported, 78), \
	FIELD(layout, global_l1_cache_supported, 79), \
	FIELD(layout, local_l1_cache_supported, 80), \
	FIELD(layout, shared_mem_per_multiprocessor, 81), \
	FIELD(layout, regs_per_multiprocessor, 82), \
	FIELD(layout, managed_memory, 83), \
	FIELD(layout, is_multi_gpu_board, 84), \
	FIELD(layout, multi_gpu_board_group_id, 85), \
	FIELD(layout, host_native_atomic_supported, 86), \
	FIELD(layout, pageable_memory_access, 88), \
	FIELD(layout, concurrent_managed_access, 89), \
	FIELD(layout, compute_preemption_supported, 90), \
	FIELD(layout, can_use_host_pointer_for_registered_mem, 91), \
	FIELD(layout, cooperative_launch, 95), \
	FIELD(layout, shared_mem_per_block_optin, 97), \
	FIELD(layout, pageable_memory_access_uses_host_page_tables, 100), \
	FIELD(layout, direct_managed_mem_access_from_host, 101), \
	FIELD(layout, max_blocks_per_multi_processor, 106), \
	FIELD(layout, access_policy_max_window_size, 109), \
	FIELD(layout, reserved_shared_mem_per_block, 111), \
	FIELD(layout, host_register_supported, 99), \
	FIELD(layout, sparse_cuda_array_supported, 112), \
	FIELD(layout, host_register_read_only_supported, 113), \
	FIELD(layout, timeline_semaphore_interop_supported, 114), \
	FIELD(layout, memory_pools_supported, 115), \
	FIELD(layout, gpu_direct_rdma_supported, 116), \
	FIELD(layout, gpu_direct_rdma_flush_writes_options, 117), \
	FIELD(layout, gpu_direct_rdma_writes_ordering, 118), \
	FIELD(layout, memory_pool_supported_handle_types, 119), \
	FIELD(layout, deferred_mapping_cuda_array_supported, 121), \
	FIELD(layout, ipc_event_supported, 125), \
	FIELD(layout, cluster_launch, 120), \
	FIELD(layout, unified_function_pointers, 129), \
	FIELD(layout, max_threads_dim[0], 2), \
	FIELD(layout, max_threads_dim[1], 3), \
	FIELD(layout, max_threads_dim[2], 4), \
	FIELD(layout, max_grid_size[0], 5), \
	FIELD(layout, max_grid_size[1], 6), \
	FIELD(layout, max_grid_size[2], 7), \
	FIELD(layout, max_texture_2d[0], 22), \
	FIELD(layout, max_texture_2d[1], 23), \
	FIELD(layout, max_texture_2d_mipmap[0], 73), \
	FIELD(layout, max_texture_2d_mipmap[1], 74), \
	FIELD(layout, max_texture_2d_linear[0], 70), \
	FIELD(layout, max_texture_2d_linear[1], 71), \
	FIELD(layout, max_texture_2d_linear[2], 72), \
	FIELD(layout, max_texture_2d_gather[0], 45), \
	FIELD(layout, max_texture_2d_gather[1], 46), \
	FIELD(layout, max_texture_3d[0], 24), \
	FIELD(layout, max_texture_3d[1], 25), \
	FIELD(layout, max_texture_3d[2], 26), \
	FIELD(layout, max_texture_3d_alt[0], 47), \
	FIELD(layout, max_texture_3d_alt[1], 48), \
	FIELD(layout, max_texture_3d_alt[2], 49), \
	FIELD(layout, max_texture_1d_layered[0], 42), \
	FIELD(layout, max_texture_1d_layered[1], 43), \
	FIELD(layout, max_texture_2d_layered[0], 27), \
	FIELD(layout, max_texture_2d_layered[1], 28), \
	FIELD(layout, max_texture_2d_layered[2], 29), \
	FIELD(layout, max_texture_cubemap_layered[0], 53), \
	FIELD(layout, max_texture_cubemap_layered[1], 54), \
	FIELD(layout, max_surface_2d[0], 56), \
	FIELD(layout, max_surface_2d[1], 57), \
	FIELD(layout, max_surface_3d[0], 58), \
	FIELD(layout, max_surface_3d[1], 59), \
	FIELD(layout, max_surface_3d[2], 60), \
	FIELD(layout, max_surface_1d_layered[0], 61), \
	FIELD(layout, max_surface_1d_layered[1], 62), \
	FIELD(layout, max_surface_2d_layered[0], 63), \
	FIELD(layout, max_surface_2d_layered[1], 64), \
	FIELD(layout, max_surface_2d_layered[2], 65), \
	FIELD(layout, max_surface_cubemap_layered[0], 67), \
	FIELD(layout, max_surface_cubemap_layered[1], 68), \

static const struct field fields_12[] = {
	COMMON_FIELDS(vs_properties_12)
	FIELD(vs_properties_12, clock_rate, 13),
	FIELD(vs_properties_12, device_overlap, 15),
	FIELD(vs_properties_12, kernel_exec_timeout_enabled, 17),
	FIELD(vs_properties_12, compute_mode, 20),
	FIELD(vs_properties_12, max_texture_1d_linear, 69),
	FIELD(vs_properties_12, memory_clock_rate, 36),
	FIELD(vs_properties_12, single_to_double_precision_perf_ratio, 87),
	FIELD(vs_properties_12, cooperative_multi_device_launch, 96),
};

static const struct field fields_13[] = {
	COMMON_FIELDS(vs_properties_13)
	FIELD(vs_properties_13, device_numa_config, 130),
	FIELD(vs_properties_13, device_numa_id, 131),
	FIELD(vs_properties_13, mps_enabled, 133),
	FIELD(vs_properties_13, host_numa_id, 134),
	FIELD(vs_properties_13, gpu_pci_device_id, 139),
	FIELD(vs_properties_13, gpu_pci_subsystem_id, 140),
	FIELD(vs_properties_13, host_numa_multinode_ipc_supported, 143),
};
/* clang-format on */

static void fill(int device, const struct field *fields, size_t count, void *properties)
{
	for (size_t i = 0; i < count; i++) {
		int value = 0;
		size_t wide;

		vs_attribute(fields[i].attribute, device, &value);
		wide = (size_t)value;
		memcpy((char *)properties + fields[i].offset,
		       fields[i].width == sizeof(wide) ? (void *)&wide : &value, fields[i].width);
	}
}

void vs_properties_12(int device, struct vs_properties_12 *ret_properties)
{
	const struct vs_sim *sim = vs_sim_get();

	memset(ret_properties, 0, sizeof(*ret_properties));
	snprintf(ret_properties->name, sizeof(ret_properties->name), "%s", sim->gpu->name);
	vs_gpu_uuid(sim->physical[device], &ret_properties->uuid);
	ret_properties->total_global_mem = sim->total;
	fill(device, fields_12, sizeof(fields_12) / sizeof(fields_12[0]), ret_properties);
}

void vs_properties_13(int device, struct vs_properties_13 *ret_properties)
{
	const struct vs_sim *sim = vs_sim_get();

	memset(ret_properties, 0, sizeof(*ret_properties));
	snprintf(ret_properties->name, sizeof(ret_properties->name), "%s", sim->gpu->name);
	vs_gpu_uuid(sim->physical[device], &ret_properties->uuid);
	ret_properties->total_global_mem = sim->total;
	fill(device, fields_13, sizeof(fields_13) / sizeof(fields_13[0]), ret_properties);
}
