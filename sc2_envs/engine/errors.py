"""Why an action was refused. Positive codes are the game's own ActionResult values, negative ones the environment's."""

FINE = 0
NOT_SUPPORTED = 2
ERROR = 3
CANT_QUEUE_THAT_ORDER = 4
QUEUE_IS_FULL = 7
NOT_ENOUGH_MINERALS = 9
NOT_ENOUGH_VESPENE = 10
NOT_ENOUGH_FOOD = 13
CANT_TARGET_THAT_UNIT = 36
COULDNT_ALLOCATE_UNIT = 37
CANT_FIND_PLACEMENT_LOCATION = 41
CANT_BUILD_ON_THAT = 42
CANT_BUILD_LOCATION_INVALID = 44
CANT_BUILD_TOO_CLOSE_TO_RESOURCES = 47
MUST_BUILD_REFINERY_FIRST = 63
MUST_TARGET_UNIT = 81
MUST_TARGET_RESOURCES = 89
REQUIRES_REPAIR_TARGET = 91
CANT_TARGET_INVULNERABLE_UNITS = 161
CANT_TARGET_EXHAUSTED_RESOURCES = 200
ORDER_QUEUE_IS_FULL = 203
CANT_HARVEST_THAT_RESOURCE = 204
COULDNT_REACH_TARGET = 208
CANT_FIND_CANCEL_ORDER = 214

FUNCTION_NOT_AVAILABLE = -1
NO_SUCH_UNIT_IN_SELECTION = -2
NO_SUCH_UNIT_IN_QUEUE = -3

REASONS = {
    FINE: "",
    NOT_SUPPORTED: "NotSupported",
    ERROR: "Error",
    CANT_QUEUE_THAT_ORDER: "CantQueueThatOrder",
    QUEUE_IS_FULL: "QueueIsFull",
    NOT_ENOUGH_MINERALS: "NotEnoughMinerals",
    NOT_ENOUGH_VESPENE: "NotEnoughVespene",
    NOT_ENOUGH_FOOD: "NotEnoughFood",
    CANT_TARGET_THAT_UNIT: "CantTargetThatUnit",
    COULDNT_ALLOCATE_UNIT: "CouldntAllocateUnit",
    CANT_FIND_PLACEMENT_LOCATION: "CantFindPlacementLocation",
    CANT_BUILD_ON_THAT: "CantBuildOnThat",
    CANT_BUILD_LOCATION_INVALID: "CantBuildLocationInvalid",
    CANT_BUILD_TOO_CLOSE_TO_RESOURCES: "CantBuildTooCloseToResources",
    MUST_BUILD_REFINERY_FIRST: "MustBuildRefineryFirst",
    MUST_TARGET_UNIT: "MustTargetUnit",
    MUST_TARGET_RESOURCES: "MustTargetResources",
    REQUIRES_REPAIR_TARGET: "RequiresRepairTarget",
    CANT_TARGET_INVULNERABLE_UNITS: "CantTargetInvulnerableUnits",
    CANT_TARGET_EXHAUSTED_RESOURCES: "CantTargetExhaustedResources",
    ORDER_QUEUE_IS_FULL: "OrderQueueIsFull",
    CANT_HARVEST_THAT_RESOURCE: "CantHarvestThatResource",
    COULDNT_REACH_TARGET: "CouldntReachTarget",
    CANT_FIND_CANCEL_ORDER: "CantFindCancelOrder",
    FUNCTION_NOT_AVAILABLE: "FunctionNotAvailable",
    NO_SUCH_UNIT_IN_SELECTION: "NoSuchUnitInSelection",
    NO_SUCH_UNIT_IN_QUEUE: "NoSuchUnitInQueue",
}
"""Name of each reason for refusing an action: the game's ActionResult where positive, the environment's own else."""
