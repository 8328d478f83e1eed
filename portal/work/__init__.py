"""The portal's own kinds of work. Importing this package adds them: each process does so."""

from __future__ import annotations

from portal.courses.settings import Courses
from portal.features import Feature, add_features
from portal.launch.course_space import CourseSpace
from portal.launch.kinds.program import BUILT_IN, program_kind
from portal.launch.programs import Programs
from portal.models.course.audit import CourseAudit
from portal.models.scope import COURSES_CREATE, COURSES_MANAGE
from portal.navigation import Entry, Group
from portal.projects.audit import ProjectAudit
from portal.projects.elsewhere.tables import ProjectContentTable, ProjectRepetitionTable
from portal.projects.settings import Projects
from portal.projects.space import ProjectSpace
from portal.projects.storage.tables import ProjectStorageTable
from portal.projects.tables import ProjectTable
from portal.work.course.kind import Preview, Rehearsal, Room
from portal.work.kernel.kind import JobKernel
from portal.work.kernel.settings import JobKernels
from portal.work.run.kind import Run
from portal.work.run.settings import Runs
from portal.work.tensorboard.kind import TensorBoard

from .benchmarks.audit import BenchmarkAudit
from .benchmarks.tables import BenchmarkResultTable, BenchmarkRunTable
from .cluster.kind import KINDS as CLUSTER_KINDS
from .cluster.scheduler import DaskScheduler
from .endpoint.audit import EndpointAudit
from .endpoint.figures import EndpointFigureTable
from .endpoint.kind import ServingReplica
from .endpoint.tables import EndpointReplicaTable, EndpointTable, EndpointVersionTable
from .replicas.settings import Replicas
from .replicas.tables import ReplicaSetTable
from .run.tables import RUN_TABLES

add_features(
    Feature(
        "home",
        parts="portal.home.parts:HomeParts",
        endpoints="portal.home.endpoints:ENDPOINTS",
        pages="portal.home.pages:HOME_PAGES",
    ),
    Feature("health", parts="portal.health.watch:HealthWatch", pages="portal.health.handler:PAGES"),
    Feature(
        "course",
        settings=(Courses,),
        kinds=(Rehearsal, Preview, Room),
        spaces=(CourseSpace,),
        actions=(CourseAudit,),
        parts="portal.work.course.parts:CourseParts",
        endpoints="portal.handlers.courses:ENDPOINTS",
        pages="portal.handlers.pages.courses:COURSE_PAGES",
        navigation=(
            Entry(
                "Courses",
                "courses",
                "graduation-cap",
                Group.SPACES,
                frozenset({COURSES_CREATE, COURSES_MANAGE}),
                space="course",
            ),
        ),
        checks="portal.doctor.checks.courses:CHECKS",
        demo="portal.demo.course:PART",
    ),
    Feature(
        "project",
        settings=(Projects,),
        spaces=(ProjectSpace,),
        actions=(ProjectAudit,),
        tables=(ProjectTable, ProjectContentTable, ProjectRepetitionTable, ProjectStorageTable),
        parts="portal.projects.parts:ProjectParts",
        endpoints="portal.projects.endpoints:ENDPOINTS",
        pages="portal.projects.pages:PROJECT_PAGES",
        navigation=(Entry("Projects", "projects", "people-group", Group.SPACES),),
    ),
    Feature(
        "tensorboard",
        kinds=(TensorBoard,),
        endpoints="portal.work.tensorboard.endpoints:ENDPOINTS",
    ),
    Feature("program", settings=(Programs,), kinds=tuple(map(program_kind, BUILT_IN))),
    Feature(
        "kernel",
        settings=(JobKernels,),
        kinds=(JobKernel,),
        endpoints="portal.work.kernel.routes:ENDPOINTS",
    ),
    Feature(
        "replicas",
        settings=(Replicas,),
        tables=(ReplicaSetTable,),
        parts="portal.work.replicas.parts:ReplicaParts",
        endpoints="portal.work.replicas.endpoints:ENDPOINTS",
    ),
    Feature(
        "cluster",
        kinds=(*CLUSTER_KINDS, DaskScheduler),
        parts="portal.work.cluster.parts:ClusterParts",
        endpoints="portal.work.cluster.routes:ENDPOINTS",
    ),
    Feature(
        "run",
        settings=(Runs,),
        kinds=(Run,),
        tables=RUN_TABLES,
        parts="portal.work.run.parts:RunParts",
        endpoints="portal.work.run.endpoints:ENDPOINTS",
        pages="portal.work.run.pages:RUN_PAGES",
        navigation=(Entry("Runs", "runs", "chart-line"),),
        demo="portal.demo.run:PART",
    ),
    Feature(
        "endpoint",
        kinds=(ServingReplica,),
        actions=(EndpointAudit,),
        tables=(EndpointTable, EndpointVersionTable, EndpointReplicaTable, EndpointFigureTable),
        parts="portal.work.endpoint.parts:EndpointParts",
        endpoints="portal.work.endpoint.addresses:ENDPOINTS",
        pages="portal.work.endpoint.pages:ENDPOINT_PAGES",
        checks="portal.doctor.checks.endpoints:CHECKS",
        navigation=(
            Entry("Models", "endpoints", "tower-broadcast", detail="Endpoints: models that answer"),
        ),
    ),
    Feature(
        "benchmarks",
        actions=(BenchmarkAudit,),
        tables=(BenchmarkRunTable, BenchmarkResultTable),
        parts="portal.work.benchmarks.parts:BenchmarkParts",
        endpoints="portal.work.benchmarks.endpoints:ENDPOINTS",
        pages="portal.work.benchmarks.pages:BENCHMARK_PAGES",
        navigation=(
            Entry("Benchmarks", "benchmarks", "gauge-high", Group.SITE, detail="GPUs and storage"),
        ),
        demo="portal.demo.benchmarks:PART",
    ),
)
