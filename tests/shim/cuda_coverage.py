# SPDX-License-Identifier: MIT
"""CUDA's calls whose names sound like memory, and why they have no row in lib/shim/cuda_entries.def. Driver and runtime
share the names after cu and cuda. A name with @VERSION is that ABI of it alone."""

# They do not take memory of the card, nor give it back.
NO_MEMORY = {
    "callbacks and logs": """CoredumpDeregisterCompleteCallback CoredumpDeregisterStartCallback CoredumpRegisterCompleteCallback
        CoredumpRegisterStartCallback DeviceRegisterAsyncNotification DeviceUnregisterAsyncNotification
        LogsRegisterCallback LogsUnregisterCallback""",
    "queries": """FuncIsLoaded GraphMemAllocNodeGetParams GraphMemFreeNodeGetParams MemGetAllocationGranularity
        MemGetAllocationPropertiesFromHandle TexRefGetMipmapFilterMode TexRefGetMipmapLevelBias
        TexRefGetMipmapLevelClamp TexRefGetMipmappedArray GetMipmappedArrayLevel MipmappedArrayGetLevel
        MipmappedArrayGetMemoryRequirements MipmappedArrayGetSparseProperties
        GraphicsResourceGetMappedMipmappedArray GraphicsResourceGetMappedPointer GraphicsSubResourceGetMappedArray
        CheckpointProcessGetRestoreThreadId CheckpointProcessGetState CheckpointProcessLock CheckpointProcessUnlock""",
    "descriptors, kept by the host or in what the context has anyway": """CreateSurfaceObject CreateTextureObject DestroySurfaceObject DestroyTextureObject SurfObjectCreate
        SurfObjectDestroy TexObjectCreate TexObjectDestroy TexRefCreate TexRefDestroy TexRefSetMipmapFilterMode
        TexRefSetMipmapLevelBias TexRefSetMipmapLevelClamp TexRefSetMipmappedArray TensorMapEncodeIm2col
        TensorMapEncodeIm2colWide TensorMapEncodeTiled TensorMapReplaceAddress""",
    "streams, events and semaphores: from what the context has": """StreamCreate StreamCreateWithFlags StreamCreateWithPriority StreamDestroy EventCreate EventCreateWithFlags
        EventDestroy IpcOpenEventHandle ImportExternalSemaphore DestroyExternalSemaphore GreenCtxStreamCreate
        ExecutionCtxStreamCreate""",
    "graphs: their nodes are the host's; what allocation nodes have is asked at each upload, launch and trim":
        """GraphCreate GraphDestroy GraphDestroyNode GraphAddMemFreeNode GraphConditionalHandleCreate
        GraphConditionalHandleCreate_v2 GraphInstantiate GraphInstantiateWithFlags GraphReleaseUserObject
        GraphRetainUserObject UserObjectCreate UserObjectRelease UserObjectRetain""",
    "the linker and compiler of device code work on the host": "LinkCreate LinkDestroy",
    "who may see managed memory, and where it lies: its size stays": "StreamAttachMemAsync",
    "memory is bound that is counted already": "MulticastBindAddr MulticastBindMem MulticastUnbind",
    "the cache": "CtxResetPersistingL2Cache",
}

# They do, and are left out all the same.
LEFT_OUT = {
    "32-bit addresses and sizes, of before CUDA 3.2: cannot name memory of today's cards": """Array3DCreate@2000 ArrayCreate@2000 MemAlloc@2000 MemAllocPitch@2000 MemFree@2000""",
    "how much is the driver's affair; no call tells it, so it shows as unexplained": "CtxSetLimit DeviceSetLimit ThreadSetLimit FuncLoad",
    "another API's memory, which that API's own calls take and give": """GraphicsMapResources GraphicsUnmapResources GraphicsUnregisterResource GraphicsResourceSetMapFlags""",
    "a share of the primary context, whose memory it uses": "GreenCtxCreate GreenCtxDestroy ExecutionCtxDestroy",
    "maps memory of cuMemCreate, which is counted, into a sparse array; released while mapped so, it shows as given back":
        "MemMapArrayAsync",
    "stops the process and moves all of it off the card, and back: no allocation is made or ended by it":
        "CheckpointProcessCheckpoint CheckpointProcessRestore",
}
